"""Starting the command line: what is said without the SDK, in which words and with which code; real processes."""

import subprocess
import sys

import pytest

FRESH = """
import sys
from bascule.cli.app import run
code = run(sys.argv[1:])
heavy = sorted(name for name in ("mcp", "mcp_types", "starlette", "uvicorn", "sqlalchemy", "httpx2") if name in sys.modules)
print("loaded:", heavy, file=sys.stderr)
sys.exit(code)
"""

BAD_TEMPLATE = '[operations.x]\ndescription = "d"\ncommand = ["{p}"]\neffect = "read"\narguments.p.type = "string"\n'


def bascule(*arguments, program=("-m", "bascule"), env=None, cwd=None):
    return subprocess.run(
        [sys.executable, *program, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        cwd=cwd,
        check=False,
    )


@pytest.fixture
def env(tmp_path):
    """A machine without any settings."""
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BASCULE_STATE": str(tmp_path / "state")}


def settings(tmp_path, text):
    path = tmp_path / "bascule.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (["--version"], None, 0),
        (["--help"], None, 0),
        (["serve", "--help"], None, 0),
        (["call", "--help"], None, 0),
        ([], None, 2),
        (["nothing"], None, 2),
        (["serve"], None, 2),
        (["serve", "--config", "@"], "[controller]\nprot = 1\n", 2),
        (["serve", "--config", "@"], "not toml", 2),
        (["serve", "--config", "@"], BAD_TEMPLATE, 2),
        (["serve", "--config", "@", "--host", "0.0.0.0"], "", 2),
        (["tools", "--config", "@"], "[controller]\nprot = 1\n", 2),
        (["doctor", "--config", "@"], "[controller]\nprot = 1\n", 2),
        (["call", "x", "--args", "[", "--url", "http://127.0.0.1:1"], None, 2),
        (["connect", "emacs", "--url", "http://127.0.0.1:1"], None, 2),
        (["token", "create", "Not A Name", "--config", "@"], "", 2),
        (["init", "--dir", "@dir"], None, 0),
    ],
)
def test_help_version_and_mistakes_never_pay_for_the_sdk(tmp_path, env, arguments, text, code):
    path = settings(tmp_path, text) if text is not None else ""
    given = [{"@": path, "@dir": str(tmp_path / "new")}.get(argument, argument) for argument in arguments]
    done = bascule(*given, program=("-c", FRESH), env=env, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1] == "loaded: []"
    assert "Traceback" not in done.stderr


def test_the_version_is_one_line_on_stdout(env):
    import bascule as package

    done = bascule("--version", env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"bascule {package.__version__}\n", "")


def test_help_names_every_command(env):
    done = bascule("--help", env=env)
    for command in ("init", "serve", "bridge", "tools", "call", "token", "connect", "doctor", "demo"):
        assert command in done.stdout


def test_without_settings_the_error_names_the_command_that_writes_them(tmp_path, env):
    done = bascule("serve", env=env, cwd=tmp_path)
    assert done.returncode == 2
    assert "`bascule init`" in done.stderr
    assert done.stdout == ""


def test_a_settings_mistake_is_told_as_file_line_key_and_what_would_be_right(tmp_path, env):
    path = settings(tmp_path, '[controller]\nprot = 1\n[policy]\nallow = "x"\n')
    done = bascule("serve", "--config", path, env=env)
    assert done.returncode == 2
    assert f"{path}:2: controller.prot: is not a setting; did you mean port?" in done.stderr
    assert f"{path}:4: policy.allow: must be a list in [ ]" in done.stderr


def test_every_declared_operation_that_cannot_work_is_told_at_once_with_its_line(tmp_path, env):
    text = f'{BAD_TEMPLATE}[operations.y]\ndescription = "d"\ncommand = ["true", "{{q}}"]\neffect = "read"\n'
    path = settings(tmp_path, text)
    done = bascule("serve", "--config", path, env=env)
    assert done.returncode == 2
    assert f"{path}:3: operations.x.command[0]: the program must be written out" in done.stderr
    assert f"{path}:8: operations.y.command[1]: {{q}} has no table arguments.q" in done.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "8.8.8.8", ""])
def test_a_public_bind_is_refused_naming_the_flag_that_would_allow_it(tmp_path, env, host):
    done = bascule("serve", "--config", settings(tmp_path, ""), "--host", host, env=env)
    assert done.returncode == 2
    assert "--public-bind" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve", "--port", "65536"],
        ["serve", "--port", "x"],
        ["bridge"],
        ["call"],
        ["call", "x", "--timeout", "0", "--url", "http://127.0.0.1:1"],
        ["token", "create"],
        ["connect"],
        ["tools", "--url", "http://127.0.0.1:1", "--token-env", "A", "--token-file", "b"],
        ["tools", "--url", "http://user:secret@127.0.0.1:1"],
        ["tools", "--url", "ftp://127.0.0.1"],
        ["tools", "--url", "http://127.0.0.1:99999"],
        ["tools", "--url", "http://127.0.0.1:1", "--expect", "a@>=1,2"],
        ["doctor", "--url", "http://127.0.0.1:99999"],
        ["bridge", "--url", "http://127.0.0.1:1", "--initialize-fallback", "maybe"],
        ["call", "x", "--args", "{", "--url", "http://127.0.0.1:1"],
        ["call", "x", "--args", "3", "--url", "http://127.0.0.1:1"],
        ["call", "x", "--args", '{"a":1,"a":2}', "--url", "http://127.0.0.1:1"],
        ["call", "x", "--args", "@nowhere.json", "--url", "http://127.0.0.1:1"],
        ["connect", "cursor", "--name", "Not A Name", "--url", "http://127.0.0.1:1"],
        ["connect", "openclaw", "--name", "a" * 31, "--url", "http://127.0.0.1:1"],
        ["connect", "openclaw", "--token-env", "lower_case", "--url", "http://127.0.0.1:1"],
        ["connect", "claude-desktop", "--url", "http://127.0.0.1:1"],
    ],
)
def test_a_wrong_option_is_a_usage_error_in_words(tmp_path, env, arguments):
    done = bascule(*arguments, env=env, cwd=tmp_path)
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert done.stderr or done.stdout.startswith("FAIL"), "doctor's findings are its output"
    assert "Traceback" not in done.stderr
    assert "fault of bascule" not in done.stderr
    assert "secret" not in done.stderr


def test_a_token_given_where_a_variable_is_named_is_never_repeated(tmp_path, env):
    token = f"bsc_owner_{'x' * 43}"
    done = bascule("tools", "--url", "http://127.0.0.1:1", "--token-env", token, env=env)
    assert done.returncode == 2
    assert token not in done.stdout + done.stderr
    assert "never the token itself" in done.stderr


def test_a_fault_of_our_own_is_words_and_a_traceback_only_for_who_asks(env):
    broken = "import sys\nfrom bascule.cli import app\napp.app = lambda *a, **k: 1 / 0\nsys.exit(app.run([]))\n"
    quiet = bascule(program=("-c", broken), env=env)
    assert quiet.returncode == 1
    assert "fault of bascule itself (ZeroDivisionError)" in quiet.stderr
    assert "Traceback" not in quiet.stderr
    assert "Traceback" in bascule(program=("-c", broken), env=env | {"BASCULE_LOG": "debug"}).stderr


def test_text_of_others_cannot_steer_a_terminal_but_reaches_a_pipe_unchanged(env):
    script = "import sys\nfrom bascule.cli.output import say\nsay('a\\x1b]0;b\\x07\\u202ec\\td\\n')\n"
    assert bascule(program=("-c", script), env=env).stdout == "a\x1b]0;b\x07\u202ec\td\n\n"
    terminal = script.replace("say('a", "sys.stdout.isatty = lambda: True\nsay('a")
    assert bascule(program=("-c", terminal), env=env).stdout == "a\\x1b]0;b\\x07\\u202ec\td\n\n"


def test_a_locale_that_cannot_write_a_character_gets_its_escape(env):
    script = "from bascule.cli.output import prepare, say\nprepare()\nsay('gr\\u00fc\\u00df \\u2713')\n"
    done = bascule(program=("-c", script), env=env | {"PYTHONIOENCODING": "ascii"})
    assert done.stdout == "gr\\xfc\\xdf \\u2713\n"


def test_a_reader_that_leaves_early_is_no_error_message(env):
    script = "import sys\nfrom bascule.cli import app\napp.app = lambda *a, **k: print('x' * 100_000)\nsys.exit(app.run([]))\n"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 1
    assert error == b""
