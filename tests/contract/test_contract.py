"""One suite of behaviours over every arrangement. Names begin with the row of docs/features they hold."""

import asyncio
import json

import pytest

from bascule.node.rules import allowlist
from bascule.node.terms import Completed, Effect, Operation
from kit.arrangements import ARRANGEMENTS, arranged
from kit.doubles import NOTHING, Scripted
from kit.peers import ask, call, words
from kit.until import until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=ARRANGEMENTS)
async def there(request, tmp_path):
    async with arranged(request.param, tmp_path) as made:
        yield made


async def names(there):
    return [tool["name"] for tool in (await ask(there.peer, "tools/list"))["result"]["tools"]]


def list_changes(there):
    return len([n for n in there.peer.notifications if n["method"] == "notifications/tools/list_changed"])


async def test_a1_what_is_added_while_serving_is_listed_and_announced_and_what_is_removed_is_gone(there):
    assert "more_echo" not in await names(there)
    if there.era != "initialize":
        standing = await there.peer.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await until(lambda: [n for n in there.peer.notifications if n["method"].endswith("/acknowledged")])
    await until_settled(there)
    before = list_changes(there)
    more = Scripted(prefix="more.")
    there.registry.add(more)
    await until(lambda: list_changes(there) > before)
    assert "more_echo" in await names(there)
    before = list_changes(there)
    there.registry.remove(more)
    await until(lambda: list_changes(there) > before)
    assert "more_echo" not in await names(there)
    if there.era != "initialize":
        await there.peer.cancel(standing)


async def until_settled(there):
    """A bridge announces its first catalogue; what is announced after that is a change."""
    await until_answers(lambda: call(there.peer, "echo", {"text": "x"}), lambda result: words(result) == "x")


async def until_answers(asking, condition):
    async with asyncio.timeout(30):
        while not condition(await asking()):  # noqa: ASYNC110 - the other side has no event to give
            await asyncio.sleep(0.01)


async def test_a2_tools_are_operations_in_order_under_folded_names_and_both_spellings_are_called(there):
    there.registry.add(Scripted(prefix="more."))
    await until_listed(there, "more_echo")
    listed = await names(there)
    assert listed[:6] == ["echo", "wait", "change", "destroy", "crash", "report"]
    for spelling in ("more.echo", "more_echo"):
        assert words(await call(there.peer, spelling, {"text": "x"})) == "x"


async def until_listed(there, name):
    await until_answers(lambda: names(there), lambda listed: name in listed)


@pytest.mark.parametrize(
    ("arguments", "pointer", "rule"),
    [
        ({}, "/", "required"),
        ({"text": 1}, "/text", "type"),
        ({"text": None}, "/text", "type"),
        ({"text": "x", "y": 1}, "/", "additionalProperties"),
    ],
)
async def test_a3_arguments_that_do_not_fit_are_told_by_pointer_and_rule_and_nothing_runs(
    there, arguments, pointer, rule
):
    result = await call(there.peer, "echo", arguments)
    assert result["isError"] is True
    assert f"{pointer}:" in words(result)
    assert f"rule: {rule}" in words(result)
    assert there.work.calls == []


async def test_a3_absent_and_null_arguments_are_none_at_all(there):
    there.work.release.set()
    for arguments in ({"name": "wait"}, {"name": "wait", "arguments": None}):
        message = await ask(there.peer, "tools/call", arguments)
        if "error" in message:
            assert there.era == "initialize" or arguments.get("arguments", 0) is None
            assert message["error"]["code"] == -32602
        else:
            assert not message["result"].get("isError")


async def test_a4_effects_are_annotations_and_control_arguments_stand_in_schemas_that_have_them(there):
    tools = {tool["name"]: tool for tool in (await ask(there.peer, "tools/list"))["result"]["tools"]}
    hints = {name: (t["annotations"]["readOnlyHint"], t["annotations"]["destructiveHint"]) for name, t in tools.items()}
    assert (hints["echo"], hints["change"], hints["destroy"]) == ((True, False), (False, False), (False, True))
    controls = {name: set(t["inputSchema"]["properties"]) & {"dry_run", "confirm"} for name, t in tools.items()}
    assert (controls["echo"], controls["change"], controls["destroy"]) == (set(), {"dry_run", "confirm"}, {"dry_run"})


async def test_a4_thousands_of_operations_page_and_none_is_lost(there):
    operations = [Operation(f"more.n{number}", "x", NOTHING, Effect.READ) for number in range(1200)]
    there.registry.add(Scripted(operations=operations))
    await until_all(there, 1206)


async def until_all(there, count):
    async with asyncio.timeout(30):
        while True:
            listed, cursor = [], None
            while True:
                page = (await ask(there.peer, "tools/list", {"cursor": cursor} if cursor else {})).get("result")
                if page is None:
                    break  # the catalogue changed between two pages: its cursors went with it
                listed += [tool["name"] for tool in page["tools"]]
                cursor = page.get("nextCursor")
                if not cursor:
                    break
            if len(listed) == count:
                assert len(set(listed)) == count
                return
            await asyncio.sleep(0.01)


async def test_a9_failures_are_results_with_category_and_operation_id_and_no_exceptions_text(there):
    crashed = await call(there.peer, "crash")
    assert crashed["isError"] is True
    assert "secret text" not in json.dumps(crashed)
    assert crashed["_meta"]["bascule/category"] == "capability_failure"
    assert crashed["_meta"]["bascule/operationId"] == there.record.opened[-1][0].id
    done = await call(there.peer, "echo", {"text": "x"})
    assert done["_meta"]["bascule/operationId"] == there.record.opened[-1][0].id


async def test_a9_structured_content_and_text_are_each_whole(there):
    value = {"a": [1, 2.5, None], "ü": "\u2028", "big": 2**70}
    there.work.answer = Completed(value)
    result = await call(there.peer, "echo", {"text": "x"})
    assert result["structuredContent"] == value
    assert json.loads(words(result)) == value
    for plain in ("text", "", None, True, 3, [1]):
        there.work.answer = Completed(plain)
        result = await call(there.peer, "echo", {"text": "x"})
        assert not result["isError"]
        assert isinstance(words(result), str)


async def test_a9_delivery_is_recorded_once_per_answer(there):
    await call(there.peer, "echo", {"text": "x"})
    if there.kind.startswith("memory"):
        assert there.record.deliveries == [], "without a wire nothing is handed over, and nothing is said to be"
        return
    await until(lambda: there.record.deliveries)
    assert [(d.id, d.delivered) for d in there.record.deliveries] == [(there.record.opened[0][0].id, True)]


async def test_a10_a_cancel_reaches_the_work_and_its_cause_is_recorded(there):
    ticket = await there.peer.start("tools/call", {"name": "wait", "arguments": {}})
    await until(there.work.entered.is_set)
    await there.peer.cancel(ticket)
    await until(there.work.stopped.is_set)
    await until(lambda: there.record.closed)
    assert there.record.closed[0][0].cause.value in ("cancelled", "abandoned")
    assert words(await call(there.peer, "echo", {"text": "still here"})) == "still here"


async def test_a10_a_deadline_the_caller_named_ends_the_work(there):
    result = await call(there.peer, "wait", {}, **{"bascule/deadlineMs": 50})
    assert result["isError"] is True
    assert result["_meta"]["bascule/category"] == "timeout"
    assert result["_meta"]["bascule/outcome"]["cause"] == "deadline"
    assert there.work.stopped.is_set()


async def test_a10_work_that_finished_all_the_same_is_recorded_as_finished(there):
    there.work.stubborn = True
    ticket = await there.peer.start("tools/call", {"name": "wait", "arguments": {}})
    await until(there.work.entered.is_set)
    await there.peer.cancel(ticket)
    await until(lambda: there.record.closed)
    assert there.record.closed[0][0].outcome == "completed"


async def test_b3_unknown_hidden_and_not_allowed_answer_alike_and_never_as_an_error(there):
    answers = [
        await call(there.peer, name, {"text": "x"}) for name in ("hidden.echo", "hidden_echo", "no.such", "no such")
    ]
    assert [words(answer) for answer in answers] == [
        "Unknown tool: hidden.echo", "Unknown tool: hidden_echo", "Unknown tool: no.such", "Unknown tool: no such",
    ]  # fmt: skip
    for answer in answers:
        assert answer["isError"] is True
    there.node.set_rules(allowlist([]))
    await until_refused(there)


async def until_refused(there):
    asking = lambda: call(there.peer, "echo", {"text": "x"})  # noqa: E731 - asked again and again
    await until_answers(asking, lambda result: words(result) == "Unknown tool: echo")


async def test_b6_a_write_is_previewed_confirmed_and_refused_as_it_says(there):
    refused = await call(there.peer, "change", {"text": "x"})
    assert (refused["isError"], refused["_meta"]["bascule/category"]) == (True, "permission_denied")
    preview = await call(there.peer, "change", {"text": "x", "dry_run": True})
    assert preview["structuredContent"] == {"applied": False, "plan": {"would": {"text": "x"}}}
    assert there.work.calls == []
    done = await call(there.peer, "change", {"text": "x", "confirm": True})
    assert not done["isError"]
    assert len(there.work.calls) == 1
    pending = await call(there.peer, "destroy")
    assert (pending["isError"], pending["_meta"]["bascule/category"]) == (True, "approval_pending")


async def test_c8_progress_and_logs_come_to_their_call_in_order_before_its_answer(there):
    meta = {"progressToken": "t-1"}
    if there.era != "initialize":
        meta["io.modelcontextprotocol/logLevel"] = "info"
    await call(there.peer, "report", {}, **meta)
    progress = [n["params"] for n in there.peer.notifications if n["method"] == "notifications/progress"]
    assert [(p["progressToken"], p["progress"], p["message"]) for p in progress] == [
        ("t-1", 1, "step 1"), ("t-1", 2, "step 2"), ("t-1", 3, "step 3"),
    ]  # fmt: skip
    logs = [n["params"] for n in there.peer.notifications if n["method"] == "notifications/message"]
    assert [log["data"] for log in logs] == [{"half": "way"}]


async def test_id_many_calls_at_once_get_each_its_own_answer(there):
    tickets = [await there.peer.start("tools/call", {"name": "echo", "arguments": {"text": str(n)}}) for n in range(40)]
    answers = [await there.peer.answer(ticket) for ticket in tickets]
    assert [words(answer["result"]) for answer in answers] == [str(n) for n in range(40)]


async def test_num_integers_are_exact_both_ways(there):
    schema = {"type": "object", "properties": {"text": {"type": "integer"}}, "required": ["text"]}
    there.registry.add(Scripted(operations=[Operation("more.echo", "x", schema, Effect.READ)]))
    await until_listed(there, "more_echo")
    for number in (9223372036854775807, 2**64 + 1, -(10**400)):
        result = await call(there.peer, "more_echo", {"text": number})
        assert json.loads(words(result)) == number


async def test_unknown_methods_are_errors_and_nothing_else_is(there):
    message = await ask(there.peer, "no/such", {})
    assert message["error"]["code"] == -32601
    for method in ("resources/list", "prompts/list", "resources/templates/list"):
        assert (await ask(there.peer, method, {}))["error"]["code"] == -32601, "a kind without items is not advertised"


def nested(levels):
    value = "the innermost"
    for _ in range(levels):
        value = {"in": value}
    return value


async def test_c10_an_answer_of_any_depth_arrives_or_is_said_not_to(there):
    there.work.answer = Completed(nested(64))
    assert (await call(there.peer, "echo", {"text": "x"}))["structuredContent"] == nested(64)
    for levels in (65, 500, 100_000):
        there.work.answer = Completed(nested(levels))
        result = await call(there.peer, "echo", {"text": "x"})
        assert (result["isError"], result["_meta"]["bascule/category"]) == (True, "capability_failure")
