"""Each client's own file gains the entry, with a backup, its mode and all else kept; who runs it is not tested here."""

import json
import os
import tomllib

import pytest

from bascule.cli.client_file import write
from bascule.cli.clients import CLIENTS, Command
from bascule.cli.json_places import NotEditableError, places

COMMAND = Command("bascule", "/opt/b/bin/bascule", ("bridge", "--url", "http://127.0.0.1:8765/mcp", "--expect", "box"))

BEFORE = {
    "openclaw": """\
{
  // gateway of the workstation
  agents: { defaults: { workspace: "~/claw", }, },
  mcp: {
    servers: {
      "files": { "command": "files-server", "env": { "ROOT": "${HOME}" } }, // keep
    },
  },
  logging: { level: 'info' },
}
""",
    "claude-code": '{\n  "mcpServers": {\n    "github": {\n      "type": "http",\n      "url": "https://example.test"\n    }\n  }\n}\n',
    "claude-desktop": '{\r\n\t"globalShortcut": "Ctrl+Space",\r\n\t"mcpServers": {}\r\n}\r\n',
    "codex": """\
# my codex
model = "gpt-5"            # chosen with care

[mcp_servers.docs]
command = "docs-server"    # theirs
args = [
  "-y",  # no questions
]

[mcp_servers.docs.env]
KEY = 'value'

[tui]
theme = "dark"
""",
    "cursor": '{"mcpServers":{"a":{"command":"a"}}}',
    "vscode": """\
{
    // workspace servers
    "inputs": [
        { "type": "promptString", "id": "other-key", "password": true }, // theirs
    ],
    "servers": {
        "playwright": { "type": "stdio", "command": "npx" },
    },
}
""",
    "gemini": '{\n  "theme": "GitHub",\n  "mcpServers": {\n    "bascule": {\n      "command": "old"\n    }\n  }\n}\n',
}

ENTRIES = {
    "openclaw": {"env": {"BASCULE_TOKEN": "${BASCULE_TOKEN}"}, "requestTimeoutMs": 120000},
    "claude-code": {"env": {"BASCULE_TOKEN": "${BASCULE_TOKEN}"}},
    "claude-desktop": {},
    "codex": {"env_vars": ["BASCULE_TOKEN"], "tool_timeout_sec": 120},
    "cursor": {"env": {"BASCULE_TOKEN": "${env:BASCULE_TOKEN}"}},
    "vscode": {"type": "stdio", "env": {"BASCULE_TOKEN": "${input:bascule-token}"}},
    "gemini": {"env": {"BASCULE_TOKEN": "$BASCULE_TOKEN"}, "timeout": 120000},
}


def entry_in(client, text):
    """The entry as the client would read it."""
    here = tomllib.loads(text) if client.toml else plain(places(text))
    for step in (*client.path, "bascule"):
        here = here[step]
    return here


def plain(value):
    if value.kind == "object":
        return {part.name: plain(part.value) for part in value.parts}
    if value.kind == "array":
        return [plain(part.value) for part in value.parts]
    return value.text if value.kind == "string" else json.loads(value.text)


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_the_entry_goes_where_the_client_reads_it_and_every_line_of_the_file_stays(tmp_path, name):
    file = tmp_path / "settings"
    file.write_bytes(BEFORE[name].encode())
    written = write(file, CLIENTS[name], COMMAND)
    after = file.read_bytes().decode()
    expected = {"command": COMMAND.program, "args": list(COMMAND.arguments)} | ENTRIES[name]
    assert entry_in(CLIENTS[name], after) == expected
    assert written.changed
    assert written.backup.read_bytes() == BEFORE[name].encode()
    if name != "gemini":  # whose old entry is replaced
        remaining = after.splitlines()
        for line in BEFORE[name].splitlines():
            assert any(line.rstrip(",} ") in kept for kept in remaining), line


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_a_client_without_a_file_gets_one_that_only_its_owner_can_read(tmp_path, name):
    file = tmp_path / "not" / "yet" / "there"
    written = write(file, CLIENTS[name], COMMAND)
    assert written.backup is None
    assert entry_in(CLIENTS[name], file.read_text())["command"] == COMMAND.program
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", sorted(CLIENTS))
def test_writing_the_same_entry_twice_changes_nothing_and_makes_no_second_backup(tmp_path, name):
    file = tmp_path / "settings"
    file.write_bytes(BEFORE[name].encode())
    write(file, CLIENTS[name], COMMAND)
    first = file.read_bytes()
    assert not write(file, CLIENTS[name], COMMAND).changed
    assert file.read_bytes() == first
    assert len(list(tmp_path.iterdir())) == 2


def test_vscode_is_told_once_to_ask_for_the_token_and_the_questions_of_others_stay(tmp_path):
    file = tmp_path / "mcp.json"
    file.write_text(BEFORE["vscode"])
    write(file, CLIENTS["vscode"], COMMAND)
    inputs = plain(places(file.read_text()))["inputs"]
    assert [item["id"] for item in inputs] == ["other-key", "bascule-token"]
    assert inputs[1]["password"] is True
    assert "// theirs" in file.read_text()


def test_a_token_file_leaves_no_variable_and_no_question_in_the_entry(tmp_path):
    command = Command("bascule", "/b", ("bridge", "--token-file", "/secret"), None)
    for name, client in CLIENTS.items():
        file = tmp_path / name
        write(file, client, command)
        text = file.read_text()
        assert "BASCULE_TOKEN" not in text
        assert "inputs" not in text
        assert "env" not in entry_in(client, text)


def test_mode_owner_and_symbolic_link_of_the_file_are_kept(tmp_path):
    real, link = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    real.write_text("{}")
    real.chmod(0o640)
    os.chown(real, 12345, 23456)
    link.symlink_to(real)
    write(link, CLIENTS["cursor"], COMMAND)
    status = real.stat()
    assert link.is_symlink()
    assert (status.st_mode & 0o777, status.st_uid, status.st_gid) == (0o640, 12345, 23456)
    assert "bascule" in real.read_text()


def test_backups_never_overwrite_each_other(tmp_path):
    file = tmp_path / "settings.json"
    kept = set()
    for number in range(3):
        file.write_text(json.dumps({"was": number}))
        kept.add(write(file, CLIENTS["cursor"], COMMAND).backup)
    assert sorted(json.loads(backup.read_text())["was"] for backup in kept) == [0, 1, 2]


def test_a_byte_order_mark_stays_where_it_was(tmp_path):
    file = tmp_path / "settings.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    write(file, CLIENTS["cursor"], COMMAND)
    assert file.read_bytes().startswith(b'\xef\xbb\xbf{"a": 1,')


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cursor", b'{"mcpServers": {', "not clean JSON"),
        ("cursor", b"\xff\xfe{\x00}\x00", "not UTF-8"),
        ("cursor", b'{"mcpServers": []}', "no object"),
        ("vscode", b'{"servers": {}, "inputs": 3}', "no list"),
        ("codex", b"model = \n", "not clean TOML"),
        ("codex", b"mcp_servers = 3\n", "no table"),
        ("codex", b"[[mcp_servers]]\nname = 'old style'\n", "no table"),
    ],
)
def test_a_file_that_does_not_read_cleanly_is_left_alone_without_a_backup(tmp_path, name, content, words):
    file = tmp_path / "settings"
    file.write_bytes(content)
    with pytest.raises(NotEditableError, match=words):
        write(file, CLIENTS[name], COMMAND)
    assert file.read_bytes() == content
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "# only a comment\n",
        "mcp_servers = {}\n",
        'mcp_servers = { docs = { command = "d" } }\n',
        '[mcp_servers]\n[mcp_servers.bascule]\ncommand = "old"\nenabled = true\n[mcp_servers.bascule.env]\nA = "b"\n',
        '[mcp_servers.a]\ncommand = "a"\n[tui]\nx = 1\n[mcp_servers.b]\ncommand = "b"\n',
        'mcp_servers.a.command = "a"\n',
        'model = "x"\r\n[mcp_servers.a]\r\ncommand = "a"\r\n',
    ],
)
def test_codex_settings_in_every_shape_gain_the_entry_or_are_left_alone(tmp_path, content):
    file = tmp_path / "config.toml"
    file.write_bytes(content.encode())
    expected = tomllib.loads(content)
    expected.setdefault("mcp_servers", {})["bascule"] = CLIENTS["codex"].entry(COMMAND)
    write(file, CLIENTS["codex"], COMMAND)
    after = file.read_bytes().decode()
    assert tomllib.loads(after) == expected
    assert ("\r\n" in content) == ("\r\n" in after)
    if "\r\n" in content:
        assert "\n" not in after.replace("\r\n", "")
