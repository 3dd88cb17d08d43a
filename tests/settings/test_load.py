"""A settings file is read whole or refused whole, with every problem and its line; what is done with it is not tested."""

import pytest

from bascule.settings import SettingsError, load
from bascule.settings.positions import lines_of

WHOLE = """\
[controller]
name = "gpu-box"
host = "::1"
port = 0
hosts = ["gpu.tailnet.ts.net", "gpu.example:8443"]
origins = ["http://localhost:*"]
public_bind = true
drain = "5s"

[policy]
allow = ["device.*", "service.restart"]

[plugins]
enabled = ["lights"]

[bridge]
initialize_fallback = "offer"

[operations."service.restart"]
title = "Restart"
description = "Restart one of the model services"
command = ["systemctl", "restart", "{service}"]
effect = "write"
timeout = "2m"
output_cap = "64KiB"
output = "json"
cwd = "/"
environment = ["XDG_RUNTIME_DIR"]
confirmation = "preview"
[operations."service.restart".arguments.service]
type = "string"
enum = ["vllm", "tts"]
may_start_with_dash = true
"""


def written(tmp_path, text):
    path = tmp_path / "bascule.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems(tmp_path, text, **more):
    with pytest.raises(SettingsError) as caught:
        load(written(tmp_path, text), environ={}, **more)
    return caught.value.problems


def test_every_documented_key_is_read_into_its_own_unit(tmp_path):
    settings = load(written(tmp_path, WHOLE), environ={"BASCULE_STATE": str(tmp_path / "state")})
    operation = settings.operations["service.restart"]
    assert settings.controller.name == "gpu-box"
    assert (settings.controller.port, settings.controller.drain, settings.controller.public_bind) == (0, 5.0, True)
    assert settings.policy.allow == ["device.*", "service.restart"]
    assert settings.plugins.enabled == ["lights"]
    assert settings.bridge.initialize_fallback == "offer"
    assert (operation.timeout, operation.output_cap, operation.confirmation) == (120.0, 65_536, "preview")
    assert operation.arguments["service"]["enum"] == ["vllm", "tts"]
    assert settings.state == tmp_path / "state"
    assert settings.callers_file == tmp_path / "callers.toml"
    assert settings.credentials == tmp_path / "credentials"


def test_an_empty_file_allows_nothing_and_listens_on_loopback(tmp_path):
    settings = load(written(tmp_path, ""), environ={})
    assert settings.policy.allow == []
    assert settings.plugins.enabled == []
    assert (settings.controller.host, settings.controller.port) == ("127.0.0.1", 8765)
    assert not settings.controller.public_bind
    assert settings.controller.name


def test_settings_cannot_be_changed_after_reading(tmp_path):
    settings = load(written(tmp_path, WHOLE), environ={})
    with pytest.raises(ValueError, match="frozen"):
        settings.controller.port = 1


def test_flags_win_over_the_file_and_flags_not_given_change_nothing(tmp_path):
    path = written(tmp_path, WHOLE)
    settings = load(path, environ={}, overrides={"host": "127.0.0.1", "port": 9, "public_bind": None})
    assert (settings.controller.host, settings.controller.port) == ("127.0.0.1", 9)
    assert settings.controller.public_bind


def test_all_problems_are_told_at_once_in_the_order_of_their_lines(tmp_path):
    found = problems(tmp_path, '[controller]\nport = "8765"\npots = 1\n\n[policy]\nallow = "device.*"\n[polcy]\n')
    assert [(problem.line, problem.key) for problem in found] == [
        (2, "controller.port"),
        (3, "controller.pots"),
        (6, "policy.allow"),
        (7, "polcy"),
    ]


OPERATION = '[operations.x]\ndescription = "d"\ncommand = ["true"]\neffect = "read"\n'


@pytest.mark.parametrize(
    ("text", "line", "key", "words"),
    [
        ("[controller]\nprot = 1\n", 2, "controller.prot", "did you mean port?"),
        ("[controller]\nallow = []\n", 2, "controller.allow", "belongs under [policy]"),
        ('timeout = "1s"\n', 1, "timeout", 'belongs under [operations."NAME"]'),
        ("[controller]\nzzz = 1\n", 2, "controller.zzz", "known here: drain, host"),
        ("[controller]\nport = 70000\n", 2, "controller.port", "at most 65535"),
        ("[controller]\nport = -1\n", 2, "controller.port", "at least 0"),
        ("[controller]\nport = true\n", 2, "controller.port", "whole number"),
        ("[controller]\nport = 80.0\n", 2, "controller.port", "whole number"),
        ("[controller]\npublic_bind = 1\n", 2, "controller.public_bind", "true or false"),
        ("[controller]\ndrain = 20\n", 2, "controller.drain", '"30s"'),
        ('[controller]\ndrain = "11m"\n', 2, "controller.drain", "at most"),
        ('[controller]\nhost = "a b"\n', 2, "controller.host", "127.0.0.1"),
        ('[controller]\nhost = "a\\u0000b"\n', 2, "controller.host", "127.0.0.1"),
        ('[controller]\nname = ""\n', 2, "controller.name", "letters"),
        ('[controller]\nname = "a\\nb"\n', 2, "controller.name", "letters"),
        ('[controller]\nhosts = [\n "a.example",\n "*",\n]\n', 4, "controller.hosts[1]", "gpu.tailnet.ts.net"),
        ('[controller]\nhosts = ["http://a.example"]\n', 2, "controller.hosts[0]", "is not a host"),
        ('[controller]\norigins = ["*"]\n', 2, "controller.origins[0]", "is not an origin"),
        ('[controller]\norigins = ["null"]\n', 2, "controller.origins[0]", "is not an origin"),
        ("[controller]\norigins = [7]\n", 2, "controller.origins[0]", "text in quotes"),
        ("policy = 3\n", 1, "policy", "a table"),
        ("[policy]\nallow = [1]\n", 2, "policy.allow[0]", "text in quotes"),
        ('[bridge]\ninitialize_fallback = "yes"\n', 2, "bridge.initialize_fallback", "'refuse' or 'offer'"),
        ("[operations]\nx = 3\n", 2, "operations.x", "a table"),
        ("[operations.x]\n", 1, "operations.x.command", "is missing"),
        ('[operations."no good"]\n', 1, 'operations."no good"', "words of letters"),
        (f"{OPERATION}comand = 1\n", 5, "operations.x.comand", "did you mean command?"),
        (f"{OPERATION}timeout = 5\n", 5, "operations.x.timeout", '"250ms"'),
        (f'{OPERATION}timeout = "25h"\n', 5, "operations.x.timeout", "at most"),
        (f'{OPERATION}output_cap = "9MiB"\n', 5, "operations.x.output_cap", "at most"),
        (f'{OPERATION}output_cap = "1MB"\n', 5, "operations.x.output_cap", '"1MiB"'),
        (f'{OPERATION}cwd = "~/x"\n', 5, "operations.x.cwd", "absolute path"),
        (f'{OPERATION}environment = ["A=B"]\n', 5, "operations.x.environment[0]", "without its value"),
        (f'{OPERATION}confirmation = "ask"\n', 5, "operations.x.confirmation", "'human'"),
        (f'{OPERATION}output = "xml"\n', 5, "operations.x.output", "'text' or 'json'"),
        (f"{OPERATION}arguments.a.default = 2020-01-01\n", 5, "operations.x.arguments.a", "dates"),
        (f"{OPERATION}arguments.a.maximum = nan\n", 5, "operations.x.arguments.a", "nan"),
        (f"{OPERATION}arguments.a.minimun = 1\n", 5, "operations.x.arguments.a", "did you mean minimum?"),
        (f"{OPERATION}arguments.a.required = false\n", 5, "operations.x.arguments.a", "unless it has a default"),
        (f"{OPERATION}arguments.a.properties = {{}}\n", 5, "operations.x.arguments.a", "known here"),
        (f"{OPERATION}arguments.a.may_start_with_dash = 1\n", 5, "operations.x.arguments.a", "true or false"),
        (f"{OPERATION}arguments.a = 1\n", 5, "operations.x.arguments.a", "a table"),
        ('[operations.x]\ndescription = "d"\ncommand = "ls -l"\neffect = "read"\n', 3, "operations.x.command", "list"),
        ('[operations.x]\ndescription = "d"\ncommand = []\neffect = "read"\n', 3, "operations.x.command", "empty"),
        ('[operations.x]\ndescription = "d"\ncommand = ["a"]\neffect = "rite"\n', 4, "operations.x.effect", "'write'"),
    ],
)
def test_a_wrong_value_is_refused_with_its_line_its_key_and_what_would_be_right(tmp_path, text, line, key, words):
    found = problems(tmp_path, text)
    assert (line, key) in [(problem.line, problem.key) for problem in found]
    assert words in next(problem.words for problem in found if problem.key == key)


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (b"[controller]\nport = \n", 2, "not valid TOML"),
        (b'[controller]\nport = 1\nport = 2\n[policy\nallow = ["a"]\n', 3, "not valid TOML"),
        (b'a = "', 1, "not valid TOML"),
        (b"\xef\xbb\xbf[controller]\n", 1, "byte order mark"),
        (b'[controller]\nname = "\xff"\n', 2, "not UTF-8"),
        (b"a = " + b"[" * 5_000, None, "too deep"),
        (b"a = " + b"9" * 5_000, None, "too long"),
        (b"#" * 1_048_577, None, "larger than"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_place_where_reading_ended(tmp_path, source, line, words):
    (problem,) = problems(tmp_path, source)
    assert problem.line == line
    assert words in problem.words


def test_the_error_reads_as_file_line_key_and_words(tmp_path):
    path = written(tmp_path, "[controller]\nprot = 1\n")
    with pytest.raises(SettingsError, match="did you mean") as caught:
        load(path, environ={})
    assert str(caught.value) == f"{path}:2: controller.prot: is not a setting; did you mean port?"


def test_a_place_found_wrong_later_has_its_line_or_that_of_what_encloses_it(tmp_path):
    settings = load(written(tmp_path, WHOLE), environ={})
    assert settings.locate("operations", "service.restart", "command", 2) == 22
    assert settings.locate("operations", "service.restart", "arguments", "service", "enum") == 32
    assert settings.locate("operations", "service.restart", "nowhere", "at", "all") == 19
    assert settings.locate("nowhere") is None


def test_lines_are_right_for_every_way_toml_has_to_write_a_key():
    lines = lines_of(
        b"# first\r\n"
        b'a.b."c.d" = 1\r\n'
        b'e = { f = 1, "g h" = [ 2,\r\n 3 ] }\r\n'
        b"[[t]] # comment\r\n"
        b"x = '''\r\n[no]\r\n'''\r\n"
        b"[ q . 'r.s' ]\r\n"
        b"y = 1\r\n"
    )
    assert lines["a", "b", "c.d"] == 2
    assert lines["e", "f"] == 3
    assert lines["e", "g h", "1"] == 4
    assert lines["t",] == 5
    assert lines["t", "x"] == 6
    assert lines["q", "r.s"] == 9
    assert lines["q", "r.s", "y"] == 10
    assert ("no",) not in lines
