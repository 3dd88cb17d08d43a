"""Declared commands: templates that hold, real processes with a cap and an end, and words where something is missing."""

import asyncio
import errno
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.capabilities.declared import Declared, DeclaredCommand, InvalidDeclarationError
from bascule.capabilities.template import InvalidTemplateError, UnfitValueError, parse
from bascule.node.schema import Schema
from bascule.node.terms import Call, Category, Completed, Effect, Failed, Refused
from bascule.platform import proc, processes
from bascule.redaction import mask
from kit.doubles import OWNER, KeptBack
from kit.until import until

pytestmark = pytest.mark.anyio

TEXT = {"type": "string"}


def filled(command, values, *, dashed=(), **arguments):
    schemas = arguments or dict.fromkeys(values, TEXT)
    return parse(command, schemas, may_start_with_dash=frozenset(dashed)).fill(values)


def test_a_placeholder_is_one_argument_or_part_of_one_whatever_is_in_it():
    assert filled(["p", "{a}", "x{a}y"], {"a": "b c; $(d) 'e'"}) == ("p", "b c; $(d) 'e'", "xb c; $(d) 'e'y")


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_stays_one_argument(text):
    assert filled(["p", "--x={a}", "--", "{a}"], {"a": text}) == ("p", f"--x={text}", "--", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (3.0, "3"),
        (-0.5, "-0.5"),
        (1e300, str(int(1e300))),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        (False, "false"),
        (0.1, "0.1"),
    ],
)
def test_numbers_and_booleans_are_written_as_people_write_them(value, text):
    assert filled(["p", "x{a}"], {"a": value}) == ("p", "x" + text)


@pytest.mark.parametrize(
    ("command", "value"), [(["p", "{a}"], "-rf"), (["p", "{a}"], -1), (["p", "{a}=1"], "--x"), (["p", "{a}{b}"], "-")]
)
def test_a_value_that_an_argument_begins_with_may_not_begin_with_a_dash(command, value):
    with pytest.raises(UnfitValueError, match="may_start_with_dash"):
        filled(command, {"a": value, "b": ""}, a=TEXT, **({"b": TEXT} if "{b}" in command[1] else {}))


def test_two_dashes_before_it_or_its_owners_word_let_a_dash_pass():
    assert filled(["p", "--", "{a}"], {"a": "-x"})[-1] == "-x"
    assert filled(["p", "{a}"], {"a": "-x"}, dashed=["a"])[-1] == "-x"
    assert filled(["p", "x{a}"], {"a": "-x"})[-1] == "x-x"


def test_behind_an_empty_value_the_next_one_answers_for_its_own_dash():
    with pytest.raises(UnfitValueError, match="/b"):
        filled(["p", "{a}{b}"], {"a": "", "b": "-rf"}, dashed=["a"])
    assert filled(["p", "{a}{b}"], {"a": "", "b": "-x"}, dashed=["b"])[-1] == "-x"
    with pytest.raises(UnfitValueError, match="/a"):
        filled(["p", "{a}-x"], {"a": ""})


def test_two_dashes_that_come_from_a_value_do_not_count():
    with pytest.raises(UnfitValueError):
        filled(["p", "{a}", "{b}"], {"a": "--", "b": "-x"}, dashed=["a"], a=TEXT, b=TEXT)


def test_nul_is_refused_wherever_it_stands():
    with pytest.raises(UnfitValueError, match="NUL"):
        filled(["p", "--", "x{a}"], {"a": "a\0b"})


def test_doubled_braces_are_braces():
    assert filled(["p", "{{{a}}}", "{{}}"], {"a": "x"}) == ("p", "{x}", "{}")


@pytest.mark.parametrize(
    ("command", "arguments", "key"),
    [
        ([], {}, ("command",)),
        (["{a}"], {"a": TEXT}, ("command", 0)),
        (["p{a}"], {"a": TEXT}, ("command", 0)),
        (["p", "{b}"], {}, ("command", 1)),
        (["p", "{"], {}, ("command", 1)),
        (["p", "}"], {}, ("command", 1)),
        (["p", "{a b}"], {}, ("command", 1)),
        (["p", "a\0"], {}, ("command", 1)),
        (["p"], {"a": TEXT}, ("arguments", "a")),
        (["p", "{a}"], {"a": {"type": "array"}}, ("arguments", "a", "type")),
        (["p", "{a}"], {"a": {"type": "object"}}, ("arguments", "a", "type")),
        (["p", "{a}"], {"a": {"type": ["string", "null"]}}, ("arguments", "a", "type")),
        (["p", "{a}"], {"a": {}}, ("arguments", "a", "type")),
        (["p", "{a}"], {"a": {"enum": ["x", None]}}, ("arguments", "a", "type")),
    ],
)
def test_a_template_that_cannot_work_is_refused_with_its_place(command, arguments, key):
    with pytest.raises(InvalidTemplateError) as caught:
        parse(command, arguments, may_start_with_dash=frozenset())
    assert caught.value.key == key


def test_an_enum_of_scalars_needs_no_type():
    assert filled(["p", "{a}"], {"a": 2}, a={"enum": ["x", 2]}) == ("p", "2")


# -- running --


def declared(*command, environ=None, **more):
    made = DeclaredCommand("op", "of the tests", command, more.pop("effect", Effect.READ), **more)
    return Declared([made], environ=os.environ if environ is None else environ, redact=mask)


async def run(capability, back=None, **arguments):
    (operation,) = capability.operations()
    async with asyncio.timeout(30):
        return await capability.execute(Call("1", OWNER, operation, arguments), back or KeptBack())


def python(source, **more):
    return declared(sys.executable, "-c", source.replace("{", "{{").replace("}", "}}"), **more)


async def test_text_output_is_the_documented_object_and_fits_its_schema():
    capability = python("import sys; print('out ü'); print('err', file=sys.stderr)")
    answer = await run(capability)
    assert isinstance(answer, Completed)
    assert (answer.value["exitCode"], answer.value["stdout"], answer.value["stderr"]) == (0, "out ü\n", "err\n")
    assert answer.value["truncated"] is False
    (operation,) = capability.operations()
    assert not Schema(operation.result).violations(answer.value)


async def test_a_bad_end_is_command_failed_with_what_there_is_to_show():
    answer = await run(python("import sys; print('half'); sys.exit(3)"))
    assert isinstance(answer, Failed)
    assert (answer.category, answer.value["exitCode"], answer.value["stdout"]) == (Category.COMMAND_FAILED, 3, "half\n")
    killed = await run(python("import os; os.kill(os.getpid(), 9)"))
    assert "signal 9" in killed.message


async def test_json_output_is_the_value_and_anything_else_is_a_failure_with_the_rule():
    assert (await run(python('print(\'{"b": 1, "a": [1.5]}\')', output="json"))).value == {"b": 1, "a": [1.5]}
    for source in ("print('no')", 'print(\'{"a":1,"a":2}\')', "print('NaN')", "pass"):
        answer = await run(python(source, output="json"))
        assert answer.category is Category.CAPABILITY_FAILURE
        assert answer.value["exitCode"] == 0
    cut = await run(python("print([0] * 1000)", output="json", output_cap=100))
    assert "cut at its cap of 100 bytes" in cut.message


async def test_output_over_its_cap_is_cut_with_marker_and_true_size_and_the_command_ends():
    answer = await run(
        python("import sys; sys.stdout.write('x' * 52_428_800); sys.stderr.write('y' * 7)", output_cap=1000)
    )
    assert answer.value["truncated"] is True
    assert answer.value["stdout"].startswith("x" * 900)
    assert "of 52428800 bytes shown]" in answer.value["stdout"]
    assert len(answer.value["stdout"]) < 1100


async def test_a_command_that_closes_its_output_is_still_awaited():
    source = "import os, sys, time; os.close(1); os.close(2); time.sleep(0.2); sys.stdin.read(); os._exit(7)"
    assert (await run(python(source))).value["exitCode"] == 7


async def test_bytes_that_are_no_text_are_replaced():
    assert (await run(python("import sys; sys.stdout.buffer.write(b'a\\xff\\x00b')"))).value["stdout"] == "a\ufffd\x00b"


async def test_the_environment_is_the_basics_and_what_was_named_and_nothing_else():
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/h",
        "LANG": "C.UTF-8",
        "WANTED": "w-value",
        "SECRET": "s",
        "LC_CTYPE": "x",
    }
    answer = await run(
        python("import os; print(' '.join(sorted(os.environ)))", environ=environ, environment=("WANTED",))
    )
    assert set(answer.value["stdout"].split()) - {"LC_CTYPE"} == {"HOME", "LANG", "PATH", "WANTED"}


async def test_the_value_of_a_named_variable_is_masked_where_it_comes_back():
    environ = {"PATH": os.environ["PATH"], "TOKEN_OF_X": "very-secret-value"}
    source = "import os, sys; v = os.environ['TOKEN_OF_X']; print(v); print(v, file=sys.stderr)"
    answer = await run(python(source, environ=environ, environment=("TOKEN_OF_X",)))
    assert "very-secret" not in str(answer.value)
    parsed = await run(
        python(
            "import os; print('{\"a\": [\"' + os.environ['TOKEN_OF_X'] + '\"]}')",
            environ=environ,
            environment=("TOKEN_OF_X",),
            output="json",
        )
    )
    assert parsed.value == {"a": ["<redacted>"]}


async def test_a_secret_of_digits_is_masked_where_it_comes_back_as_a_number():
    environ = {"PATH": os.environ["PATH"], "PIN": "73519482"}
    answer = await run(
        python(
            "import os; print('[' + os.environ['PIN'] + ', 1, true]')",
            environ=environ,
            environment=("PIN",),
            output="json",
        )
    )
    assert answer.value == ["<redacted>", 1, True]


async def test_half_a_secret_before_the_cut_is_not_shown():
    environ = {"PATH": os.environ["PATH"], "TOKEN_OF_X": "very-secret-välue"}
    source = "import os, sys; sys.stdout.write('0123456789' + os.environ['TOKEN_OF_X'] * 9)"
    for cap in range(11, 60):
        answer = await run(python(source, environ=environ, environment=("TOKEN_OF_X",), output_cap=cap))
        shown, _, marker = answer.value["stdout"].partition("\n[cut: ")
        assert shown.replace("<redacted>", "") == "0123456789"
        assert marker.endswith(f"of {10 + 9 * 18} bytes shown]")


@pytest.mark.parametrize(
    ("command", "more", "words"),
    [
        (("no-such-program-x",), {}, "no-such-program-x is missing"),
        (("/etc/passwd",), {}, "missing or not executable"),
        (("./tool",), {}, "missing or not executable"),
        (("true",), {"environment": ("NOT_SET_ANYWHERE",)}, "NOT_SET_ANYWHERE is not set"),
    ],
)
async def test_what_is_missing_is_said_before_any_effect(command, more, words):
    answer = await run(declared(*command, **more))
    assert isinstance(answer, Refused)
    assert answer.category is Category.COMMAND_UNAVAILABLE
    assert words in answer.message


async def test_a_value_that_the_system_cannot_write_is_refused_without_showing_it():
    answer = await run(declared("echo", "{a}", arguments={"a": TEXT}), a="hidden\ud800")
    assert answer.category is Category.COMMAND_UNAVAILABLE
    assert "encoding" in answer.message
    assert "hidden" not in answer.message + answer.detail


async def test_a_command_whose_output_cannot_be_read_is_ended(monkeypatch):
    async def refused(*_):
        raise OSError(errno.EMFILE, "no descriptors")

    before = {row.pid for row in proc.table().values() if row.parent == os.getpid()}
    monkeypatch.setattr(asyncio.get_running_loop(), "connect_read_pipe", refused)
    with pytest.raises(OSError, match="no descriptors"):
        await run(python("import time; time.sleep(600)", term_to_kill=1.0))
    assert {row.pid for row in proc.table().values() if row.parent == os.getpid()} <= before


async def test_a_missing_working_directory_is_said_and_a_relative_program_is_found_in_it(tmp_path):
    assert "not there" in (await run(declared("true", cwd=tmp_path / "gone"))).message
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\npwd\n")
    tool.chmod(0o755)
    assert (await run(declared("./tool", cwd=tmp_path))).value["stdout"] == f"{tmp_path}\n"


async def test_the_plan_is_exactly_what_would_run_and_runs_nothing(tmp_path):
    capability = declared("touch", "--", "{name}", cwd=tmp_path, effect=Effect.WRITE, arguments={"name": TEXT})
    (operation,) = capability.operations()
    plan = await capability.plan(Call("1", OWNER, operation, {"name": "x"}, dry_run=True))
    assert plan["command"] == ["touch", "--", "x"]
    assert plan["cwd"] == str(tmp_path)
    assert plan["program"].endswith("/touch")
    assert list(tmp_path.iterdir()) == []


async def test_a_refused_value_runs_nothing(tmp_path):
    capability = declared("touch", "{name}", cwd=tmp_path, effect=Effect.WRITE, arguments={"name": TEXT})
    answer = await run(capability, name="-x")
    assert answer.category is Category.INVALID_REQUEST
    assert list(tmp_path.iterdir()) == []


def test_our_own_word_never_reaches_a_caller_and_arguments_without_default_are_required():
    capability = declared(
        "p", "{a}{b}", arguments={"a": {**TEXT, "may_start_with_dash": True}, "b": {**TEXT, "default": ""}}
    )
    (operation,) = capability.operations()
    assert "may_start_with_dash" not in str(operation.arguments)
    assert operation.arguments["required"] == ["a"]


@pytest.mark.parametrize(
    ("schema", "key"),
    [
        ({"type": "string", "default": ["x"]}, "default"),
        ({"type": "string", "enum": ["a"], "default": "b"}, "default"),
        ({"type": "integer", "default": "1"}, "default"),
        ({"enum": ["a"], "default": 1}, "default"),
        ({"type": "string", "may_start_with_dash": "yes"}, "may_start_with_dash"),
    ],
)
def test_a_word_beside_the_schema_that_cannot_hold_is_refused_with_its_place(schema, key):
    with pytest.raises(InvalidDeclarationError) as caught:
        declared("p", "{a}", arguments={"a": schema})
    assert caught.value.key == ("arguments", "a", key)


def test_a_bad_declaration_names_its_operation():
    with pytest.raises(InvalidDeclarationError) as caught:
        declared("p", "{x}")
    assert (caught.value.operation, caught.value.key) == ("op", ("command", 1))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us see processes that left their group")
async def test_a_cancelled_command_and_its_daemon_are_gone_before_the_cancellation_comes_out(tmp_path):
    processes.become_subreaper()
    source = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)\n    os._exit(0)\n"
        "os.wait(); time.sleep(600)"
    )
    mark = tmp_path / "pid"
    capability = declared(sys.executable, "-c", source, str(mark), term_to_kill=1.0)
    task = asyncio.ensure_future(run(capability))
    await until(lambda: mark.exists() and mark.read_text())
    daemon = int(mark.read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(daemon, 0)


async def test_a_grandchild_that_holds_the_output_open_does_not_hold_the_call():
    processes.become_subreaper()
    source = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); print('done')"
    loop = asyncio.get_running_loop()
    began = loop.time()
    back = KeptBack()
    answer = await run(python(source, term_to_kill=1.0), back)
    assert answer.value["stdout"] == "done\n"
    assert loop.time() - began < 10
    assert back.said == [("notice", "op left processes running when it ended; they were ended with it")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us see that the command itself has ended")
async def test_a_command_that_ended_is_reported_as_ended_though_cancelled_while_its_rest_is_ended(tmp_path):
    mark = tmp_path / "pid"
    source = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "leader = os.getpid()\n"
        "if os.fork() == 0:\n    open(sys.argv[1], 'w').write(str(leader)); time.sleep(600)\n"
        "print('done')\n"
    )
    task = asyncio.ensure_future(run(declared(sys.executable, "-c", source, str(mark), term_to_kill=1.0)))
    await until(lambda: mark.exists() and mark.read_text() and proc.one(int(mark.read_text())) is None)
    task.cancel()
    answer = await task
    assert isinstance(answer, Completed)
    assert answer.value["stdout"] == "done\n"


async def test_many_commands_at_once_get_their_own_output():
    capability = declared("echo", "n{n}", arguments={"n": {"type": "integer"}})
    answers = await asyncio.gather(*(run(capability, n=number) for number in range(30)))
    assert [answer.value["stdout"] for answer in answers] == [f"n{number}\n" for number in range(30)]
