"""The house's habits, held by tests: what modules say, what is suppressed, what is imported, what never lands."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "bascule"
MODULES = sorted(SOURCE.rglob("*.py"))

MAX_LINES = 400
"""A longer file is a question; the answer stands here."""

LONGER = {
    "protocol/remote.py": "one remote server: finding, fetching and keeping it share their state",
    "assembly/controller.py": "reads as one list of parts in their order",
}

MAX_FUNCTION = 50


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        return [path for path in ROOT.rglob("*") if path.is_file() and not {".venv", "build", ".git"} & set(path.parts)]
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_every_module_says_what_it_does_and_what_it_leaves_to_others(path):
    doc = ast.get_docstring(ast.parse(path.read_text()))
    assert doc, "no docstring"
    first, *rest = doc.split("\n\n")
    assert first[0].isupper() or first[0] in "`{"
    assert first.rstrip().endswith((".", ":")), first
    sentences = re.findall(r"[.:;](?:\s|$)", doc)
    assert len(sentences) >= 2, "one sentence on what it does, one on what it leaves to others"
    assert rest, "the second sentence is missing"


def public_names(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and not node.name.startswith("_"):
            yield node


def test_public_functions_have_a_sentence():
    bare = [
        f"{path.relative_to(SOURCE)}:{node.name}"
        for path in MODULES
        for node in public_names(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not ast.get_docstring(node)
    ]
    assert bare == []


def test_suppressions_name_their_code_and_their_reason():
    bad = []
    for path in MODULES:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "# noqa" in line and not re.search(r"# noqa: [A-Z]+[0-9]+(, [A-Z]+[0-9]+)* - \w", line):
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
            if "type: ignore" in line and not re.search(r"type: ignore\[[a-z-]+\]\s+# \w", line):
                bad.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert bad == []


def test_long_files_and_functions_are_answered_questions():
    long = {str(p.relative_to(SOURCE)): n for p in MODULES if (n := len(p.read_text().splitlines())) > MAX_LINES}
    assert set(long) <= set(LONGER), long
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or 0) - node.lineno
                assert lines <= MAX_FUNCTION + len((ast.get_docstring(node) or "").splitlines()), (
                    path,
                    node.name,
                    lines,
                )


def loaded_by(statement):
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_node_loads_no_mcp_no_http_no_sql():
    loaded = loaded_by("import bascule.node.local")
    assert not loaded & {"mcp", "mcp_types", "starlette", "uvicorn", "httpx2", "sqlite3", "pydantic"}


def test_a_bridge_loads_no_server_no_store_and_no_settings():
    loaded = loaded_by("import bascule.assembly.bridge")
    assert not loaded & {"sqlite3", "tree_sitter", "typer", "psutil"}


NOT_HERE = [
    r"(py[p]i|python[h]osted|npm[j]s|deb[.]debia[n])[.](org|com)",
    r'"resolved": *"http',
    r"(^|[^A-Za-z0-9_.-])/wor[k]/",
    r"(^|[^A-Za-z0-9_.-])/op[t]/(wheels|pyp[i])",
    r"--find-link[s]",
]


@pytest.mark.parametrize("pattern", NOT_HERE)
def test_no_file_names_a_registry_or_a_place_of_somebodys_machine(pattern):
    found = []
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {line.strip()[:100]}" for line in text.splitlines() if re.search(pattern, line)
        ]
    assert found == []


def test_every_row_of_the_compatibility_table_names_tests_that_exist():
    names = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        names |= {f"{path.relative_to(ROOT / 'tests')}::{n}" for n in re.findall(r"def (test_\w+)", path.read_text())}
    rows = [
        line
        for line in (ROOT / "docs" / "compatibility.md").read_text().splitlines()
        if line.startswith("| ") and "---" not in line
    ]
    assert len(rows) > 40
    for row in rows:
        if row.startswith("| what |"):
            continue
        pinned = re.findall(r"`([\w/]+\.py::test_\w+)`", row)
        assert pinned, f"no test: {row}"
        assert set(pinned) <= names, (row, set(pinned) - names)


def test_every_dependency_has_its_row():
    text = (ROOT / "pyproject.toml").read_text()
    wanted = re.findall(
        r'^  "([a-z0-9-]+)[>=;]', text.partition("[project.scripts]")[0].partition("dependencies = [")[2], re.MULTILINE
    )
    rows = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in wanted if f"`{name}`" not in rows] == []


def test_make_help_names_every_target():
    shown = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("demo", "serve", "test", "check", "clients", "bench"):
        assert f"make {target}" in shown
