"""The documents say what is so: links lead somewhere, names exist, commands parse, settings load, tables are whole."""

import ast
import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from typer import TyperException

from bascule.assembly import operations
from bascule.cli.app import app
from bascule.cli.clients import CLIENTS, Command
from bascule.cli.exits import Exit
from bascule.settings import load
from bascule.settings.model import OperationSettings, Settings
from kit.docs import ROOT, document, documents

DOCUMENTS = pytest.mark.parametrize("page", documents(), ids=str)
SOURCES = sorted((ROOT / "src" / "bascule").rglob("*.py"))
OPERATIONS, SECURITY = document("docs/operations.md"), document("docs/security.md")


# -- names and links --


@DOCUMENTS
def test_every_link_leads_to_a_file_and_to_a_heading_of_it(page):
    for link in page.links():
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        assert target.exists(), link
        if anchor:
            assert anchor in document(str(target.relative_to(ROOT))).anchors(), link


@DOCUMENTS
def test_every_path_that_is_named_exists(page):
    named = [code for code in page.code() if re.fullmatch(r"(src|tests|docs|examples|requirements)/[\w./-]+", code)]
    assert [name for name in named if not (ROOT / name).exists()] == []


@DOCUMENTS
def test_every_test_that_is_named_exists(page):
    names = set(
        itertools.chain(*(re.findall(r"def (test_\w+)", p.read_text()) for p in (ROOT / "tests").rglob("*.py")))
    )
    named = {found for code in page.code() for found in re.findall(r"(?:^|::)(test_\w+)$", code)}
    assert named - names == set()


@DOCUMENTS
def test_every_make_target_that_is_named_exists(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    spoken = [*page.code(), *"\n".join(page.blocks("", "sh")).splitlines()]
    named = {match[1] for text in spoken if (match := re.match(r"make ([a-z]+)\b", text.strip()))}
    assert named <= targets


def test_every_document_is_reachable_from_the_readme():
    seen, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        seen.add(path)
        links = [
            (path.parent / link.partition("#")[0]).resolve() for link in document(str(path.relative_to(ROOT))).links()
        ]
        links = [link / "README.md" if link.is_dir() else link for link in links]
        waiting += [link for link in links if link.suffix == ".md" and link.exists() and link not in seen]
    assert {page.path for page in documents() if page.path.is_relative_to(ROOT / "docs")} - seen == set()


# -- commands --


def spoken_commands(page):
    """Lines of shell blocks that call bascule, and inline code that does; continued lines are one."""
    lines = [line for block in page.blocks("", "sh") for line in block.replace("\\\n", " ").splitlines()]
    spoken = [line.split(" #")[0].strip() for line in lines] + page.code()
    for text in spoken:
        if re.match(r"bascule [a-z]", text) and not text.startswith("bascule controller listening"):
            yield text


def alternatives(text):
    """`token create|rotate NAME` is two commands."""
    parts = [word.split("|") if re.fullmatch(r"[a-z|]+", word) else [word] for word in shlex.split(text)]
    return [list(words) for words in itertools.product(*parts)]


def parse(words):
    """Hand the words to the real command line, up to the point where the command would run."""
    command, context = typer.main.get_command(app), None
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, words
        context, (name, *words) = command.make_context("bascule", [], parent=context, resilient_parsing=True), words
        command = command.commands[name]
    return command, words, context


@DOCUMENTS
def test_every_command_that_is_shown_is_one(page):
    for text in spoken_commands(page):
        for words in alternatives(text):
            command, rest, _ = parse(words[1:])
            known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
            used = {word for word in rest if word.startswith("--")}
            assert used <= known | {"--help", "--version"}, text


@pytest.mark.parametrize("name", ["README.md", "docs/operations.md"])
def test_every_command_of_a_shell_block_can_be_typed_as_it_stands(name):
    lines = [line.split(" #")[0] for block in document(name).blocks("", "sh") for line in block.splitlines()]
    typed = [line for line in lines if re.match(r"bascule [a-z]", line)]
    assert typed
    for line in typed:
        command, rest, context = parse(shlex.split(line)[1:])
        try:
            command.make_context(command.name, rest, parent=context)
        except TyperException as error:
            pytest.fail(f"{line}: {error}")


# -- settings --


@DOCUMENTS
def test_every_settings_file_that_is_shown_loads_and_can_be_put_to_work(page, tmp_path):
    for block in page.blocks("toml"):
        if set(tomllib.loads(block)) & set(Settings.model_fields):
            (tmp_path / "bascule.toml").write_text(block)
            operations.check(load(tmp_path / "bascule.toml", environ={}))


def test_every_setting_has_its_row_with_its_true_default(tmp_path):
    documented = {}
    for key, default, *_ in OPERATIONS.table("key", "default", "meaning"):
        if match := re.fullmatch(r"`\[(\w+)\] (\w+)`", key):
            documented[match[1], match[2]] = default
    sections = [name for name in Settings.model_fields if name != "operations"]
    empty = load(_file(tmp_path, ""), environ={})
    assert set(documented) == {(name, key) for name in sections for key in type(getattr(empty, name)).model_fields}
    for (section, key), default in documented.items():
        if default.startswith("`"):
            shown = load(_file(tmp_path, f"[{section}]\n{key} = {default.strip('`')}\n"), environ={})
            assert getattr(getattr(shown, section), key) == getattr(getattr(empty, section), key), (section, key)


def test_every_key_of_an_operation_has_its_row_with_its_true_default(tmp_path):
    rows = {
        key.strip("`"): default for key, default, *_ in OPERATIONS.table("key", "default", "meaning") if "[" not in key
    }
    assert set(rows) == set(OperationSettings.model_fields)
    least = '[operations.x]\ndescription = "d"\ncommand = ["true"]\neffect = "read"\n'
    plain = load(_file(tmp_path, least), environ={}).operations["x"]
    for key, default in rows.items():
        field = OperationSettings.model_fields[key]
        assert (default == "required") == field.is_required(), key
        if default.startswith("`"):
            shown = load(_file(tmp_path, f"{least}{key} = {default.strip('`')}\n"), environ={}).operations["x"]
            assert getattr(shown, key) == getattr(plain, key), key


def _file(folder: Path, text: str) -> Path:
    path = folder / "bascule.toml"
    path.write_text(text)
    return path


def test_every_variable_that_is_read_is_documented_and_no_other():
    read = {
        constant.value
        for path in SOURCES
        for constant in ast.walk(ast.parse(path.read_text()))
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
        if re.fullmatch(r"BASCULE_[A-Z_]+", constant.value)
    }
    assert {row[0].strip("`") for row in OPERATIONS.table("variable", "read by")} == read


def test_the_exit_codes_are_the_documented_ones():
    codes = {int(row[0]) for row in OPERATIONS.table("code", "meaning")}
    assert codes - {130} == set(Exit)
    (sentence,) = re.findall(r"^Exit codes: (.+)\.$", document("README.md").text, re.MULTILINE)
    assert [int(part.split()[0]) for part in sentence.split(", ")] == sorted(Exit)


# -- what is said --


def said_by_the_source():
    """Every text in the code, constants put in and a gap where something else is filled in."""
    nodes = [node for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))]
    texts = {
        node.target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.value, ast.Constant)
    }

    def filled(part):
        if isinstance(part, ast.Constant):
            return str(part.value)
        return str(texts.get(part.value.id, "\0")) if isinstance(part.value, ast.Name) else "\0"

    said = ["".join(map(filled, node.values)) for node in nodes if isinstance(node, ast.JoinedStr)]
    return said + [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_every_message_in_the_troubleshooting_table_is_really_said():
    said = "\1".join(said_by_the_source())
    rows = OPERATIONS.table("text", "cause", "what to do")
    assert len(rows) > 30
    for text, *_ in rows:
        for message in re.findall(r"`([^`]+)`", text):
            fragments = [part.strip(" .:{}$") for part in re.split(r"\.\.\.|[;:] ", message)]
            assert any(fragments), message
            assert [fragment for fragment in fragments if fragment not in said] == [], message


def test_the_gates_are_listed_in_their_order_with_the_status_each_gives():
    rows = SECURITY.table("no.", "gate", "refuses", "status")
    source = (ROOT / "src" / "bascule" / "assembly" / "controller.py").read_text()
    folded = re.findall(r"^        (?:partial\()?(\w+)Gate\b", source, re.MULTILINE)
    listed = [name.title().replace(" ", "") for _, name, *_ in rows]
    assert [{"Json": "JsonBody"}.get(name, name) for name in listed] == folded
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    for gate, (_, _, _, status) in zip(folded, rows, strict=True):
        text = (ROOT / "src" / "bascule" / "gates" / f"{re.sub(r'(?<!^)(?=[A-Z])', '_', gate).lower()}.py").read_text()
        given = set(re.findall(r"\brefuse\(\s*send, (\d{3})", text)) - ({"400"} if gate == "JsonBody" else set())
        assert given == set(re.findall(r"\d{3}", status)) - ({"400"} if gate == "JsonBody" else set()), gate


def test_every_client_has_its_row_and_the_row_is_what_connect_writes():
    rows = {row[0]: row for row in document("docs/clients.md").table("client", "file", "token")}
    for client in CLIENTS.values():
        _, file, token, *_ = rows[client.title]
        entry = str(client.entry(Command("bascule", "bascule", ("bridge",))))
        assert f"`{client.file({'HOME': '/home/somebody'}).name}`" in file
        assert f"`{client.path[-1]}`" in file or f"`{'.'.join(client.path)}`" in file
        (reference,) = re.findall(r"^`([^`]+)`", token)
        prefix = reference.partition("...")[0]
        assert prefix in (entry if client.expands else "--token-file") or prefix in entry, client.title


def test_every_decision_is_in_the_index_and_names_what_was_not_taken():
    files = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    index = document("docs/decisions/README.md").links()
    assert [path.name for path in files] == index
    assert [int(path.name[:4]) for path in files] == list(range(1, len(files) + 1))
    for path in files:
        text = path.read_text()
        assert re.match(rf"# {path.name[:4]}: \S", text), path.name
        parts = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
        assert list(parts) == ["Context", "Decision", "Options not taken", "Consequences"], path.name
        assert "**Status:**" in text.partition("## ")[0], path.name
        assert len(re.findall(r"^- \*\*", parts["Options not taken"], re.MULTILINE)) >= 2, path.name
        assert all(part.strip() for part in parts.values()), path.name
