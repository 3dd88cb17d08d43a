"""The way of one call through the node: see, read, decide, ask, record, execute, close."""

import asyncio
import logging

import pytest

from bascule.identity import Caller
from bascule.node.local import LocalNode
from bascule.node.record import Durability
from bascule.node.registry import Registry
from bascule.node.rules import allowlist
from bascule.node.slots import SlotLimits
from bascule.node.terms import (
    Category,
    Cause,
    Completed,
    Confirmation,
    Effect,
    EffectState,
    Failed,
    Fault,
    Invocation,
    Kind,
    NeedsAnswer,
    Operation,
    Refused,
    Slots,
)
from kit.doubles import NOTHING, OWNER, TEXT, KeptBack, MemoryRecord, Scripted, invocation
from kit.until import until

pytestmark = pytest.mark.anyio


class House:
    """A node with its record and one scripted capability."""

    def __init__(self, *, allow=("*",), operations=(), slots=None):
        self.record = MemoryRecord()
        self.work = Scripted(record=self.record, operations=operations)
        self.registry = Registry()
        self.registry.add(self.work)
        self.node = LocalNode(self.registry, allowlist(allow), self.record, slots=slots)
        self.back = KeptBack()

    async def call(self, name, arguments=None, **more):
        async with asyncio.timeout(10):
            return await self.node.invoke(invocation(name, arguments, **more), self.back)


@pytest.fixture
async def house():
    made = House()
    yield made
    await made.node.aclose(0)
    leftovers = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in leftovers if "LocalNode" in repr(task)]


async def test_an_allowed_read_is_recorded_executed_and_completed(house):
    assert await house.call("echo", {"text": "hi"}) == Completed("hi")
    assert house.record.order == ["open echo", "execute echo", "close completed"]
    (opening, durability), (closing, _) = house.record.opened[0], house.record.closed[0]
    assert (opening.caller, opening.verdict, durability) == ("owner", "allow", Durability.SOON)
    assert (closing.category, closing.cause) == (Category.NONE, Cause.COMPLETED)


@pytest.mark.parametrize("name", ["nothing", "echo", "echo.", "Echo", ""])
async def test_unknown_hidden_and_not_allowed_answer_alike_whatever_the_arguments(name):
    house = House(allow=["other"])
    for arguments in ({}, {"text": 3}, [1]):
        answer = await house.call(name, arguments)
        assert answer == Refused(
            Category.UNSUPPORTED_COMMAND, f"Unknown tool: {name}", "unknown, hidden or not allowed"
        )
    assert house.work.calls == []
    assert {opening.operation for opening, _ in house.record.opened} == {"unknown"}
    await house.node.aclose(0)


async def test_an_unknown_name_is_said_back_escaped_and_cut(house):
    answer = await house.call("a\x00\u202e\n" + "x" * 100)
    assert answer.message == ("Unknown tool: a\\u{0}\\u{202E}\\u{A}" + "x" * 100)[: len("Unknown tool: ") + 64]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "rule: required"),
        ({"text": 1}, "/text: "),
        ({"text": None}, "rule: type"),
        ({"text": "x", "more": 1}, "rule: additionalProperties"),
        ([], "not a JSON object"),
        ("text", "not a JSON object"),
    ],
)
async def test_arguments_that_do_not_fit_execute_nothing_and_name_pointer_and_rule(house, arguments, words):
    answer = await house.call("echo", arguments)
    assert answer.category is Category.INVALID_REQUEST
    assert words in answer.message
    assert house.work.calls == []


async def test_a_value_that_does_not_fit_is_never_said_back(house):
    answer = await house.call("echo", {"text": ["secret-value"]})
    assert "secret-value" not in answer.message + answer.detail


async def test_a_write_needs_confirm_and_only_the_json_boolean_counts(house):
    refused = await house.call("change", {"text": "x"})
    assert (refused.category, house.work.calls) == (Category.PERMISSION_DENIED, [])
    assert "confirm: true" in refused.message
    assert (await house.call("change", {"text": "x", "confirm": "true"})).category is Category.INVALID_REQUEST
    assert (await house.call("change", {"text": "x", "confirm": 1})).category is Category.INVALID_REQUEST
    assert await house.call("change", {"text": "x", "confirm": True}) == Completed("x")
    assert house.work.calls[0].arguments == {"text": "x"}, "control arguments do not reach the capability"


async def test_a_write_is_durable_before_its_effect(house):
    await house.call("change", {"text": "x", "confirm": True})
    assert house.record.order[-3:] == ["open change", "execute change", "close completed"]
    assert {durability for _, durability in house.record.opened + house.record.closed} == {Durability.BEFORE_EFFECT}


async def test_a_dry_run_shows_the_plan_marked_as_not_applied_even_with_confirm(house):
    for arguments in ({"text": "x", "dry_run": True}, {"text": "x", "dry_run": True, "confirm": True}):
        assert await house.call("change", arguments) == Completed({"would": {"text": "x"}}, applied=False)
    assert house.work.calls == []


async def test_preview_is_the_default_of_preview_operations_and_applies_on_dry_run_false():
    house = House(operations=[Operation("tidy", "tidy up", NOTHING, Effect.WRITE, confirmation=Confirmation.PREVIEW)])
    assert (await house.call("tidy")).applied is False
    assert (await house.call("tidy", {"dry_run": False})).applied is True
    assert (await house.call("tidy", {"confirm": True})).category is Category.INVALID_REQUEST, "it has no such argument"
    await house.node.aclose(0)


async def test_a_destructive_operation_waits_for_a_person_and_nobody_can_say_yes_for_them(house):
    for arguments in ({}, {"dry_run": False}):
        answer = await house.call("destroy", arguments)
        assert isinstance(answer, NeedsAnswer)
        assert answer.question_id == ""
    assert (await house.call("destroy", {"confirm": True})).category is Category.INVALID_REQUEST
    assert (await house.call("destroy", {"dry_run": True})).applied is False
    assert house.work.calls == []
    assert house.record.opened[0][0].verdict == "ask"


async def test_control_arguments_are_in_the_schemas_of_operations_that_have_them_and_of_no_other(house):
    offer = await house.node.offered_to(OWNER)
    controls = {o.name: set(o.arguments["properties"]) & {"dry_run", "confirm"} for o in offer.operations}
    assert controls["echo"] == set()
    assert controls["change"] == {"dry_run", "confirm"}
    assert controls["destroy"] == {"dry_run"}


async def test_a_record_that_cannot_be_written_stops_everything_before_it_is_done(house):
    house.record.broken = True
    for name, arguments in [("echo", {"text": "x"}), ("change", {"text": "x", "confirm": True})]:
        assert (await house.call(name, arguments)).category is Category.STORE_UNAVAILABLE
    assert house.work.calls == []
    assert not await house.node.ready()
    house.record.broken = False
    assert await house.call("echo", {"text": "x"}) == Completed("x")


async def test_a_record_that_fails_at_the_end_takes_the_answer_from_nobody(house, caplog):
    call = asyncio.create_task(house.call("wait"))
    await house.work.entered.wait()
    house.record.broken = True
    house.work.release.set()
    assert await call == Completed(None)
    assert "could not be recorded" in caplog.text


async def test_an_exception_of_a_capability_reaches_the_log_and_never_the_peer(house, caplog):
    answer = await house.call("crash")
    assert answer.category is Category.CAPABILITY_FAILURE
    assert "secret text" not in answer.message + answer.detail
    assert "secret text" in caplog.text


async def test_a_deadline_ends_the_work_and_says_that_the_effect_may_be_partial(house):
    answer = await house.call("wait", remaining=0.02)
    assert (answer.category, answer.cause, answer.effect) == (Category.TIMEOUT, Cause.DEADLINE, EffectState.PARTIAL)
    assert house.work.stopped.is_set()
    assert house.record.closed[-1][0].cause is Cause.DEADLINE


async def test_the_smaller_of_the_callers_patience_and_the_operations_timeout_counts():
    house = House(operations=[Operation("wait", "wait", NOTHING, Effect.READ, timeout=0.02)])
    assert (await house.call("wait", remaining=100)).cause is Cause.DEADLINE
    await house.node.aclose(0)


@pytest.mark.parametrize("cause", [Cause.ABANDONED, Cause.CANCELLED])
async def test_a_caller_that_leaves_ends_the_work_for_the_cause_it_said(house, cause):
    call = asyncio.create_task(house.call("wait", if_dropped=cause))
    await house.work.entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    async with asyncio.timeout(10):
        await house.work.stopped.wait()
    await house.node.aclose(0)
    assert house.record.closed[0][0].cause is cause
    assert [(d.delivered, d.cause) for d in house.record.deliveries] == [(False, cause.value)]


async def test_work_that_finished_all_the_same_is_recorded_as_finished(house):
    house.work.stubborn = True
    call = asyncio.create_task(house.call("wait"))
    await house.work.entered.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await house.node.aclose(0)
    assert house.record.closed[0][0].outcome == "completed"


async def test_delivery_is_reported_once_and_the_first_report_counts(house):
    answer = await house.call("echo", {"text": "x"})
    answer.receipt.delivered()
    answer.receipt.delivered()
    answer.receipt.undelivered("late")
    assert [d.delivered for d in house.record.deliveries] == [True]


async def test_progress_and_logs_come_in_order_and_nothing_after_the_answer(house):
    kept = []

    class Keeping(Scripted):
        async def execute(self, call, back):
            kept.append(back)
            return await super().execute(call, back)

    house.registry.add(Keeping(prefix="kept."))
    await house.call("kept.report")
    assert house.back.said == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3"), ("info", {"half": "way"})]
    await kept[0].progress(4)
    await kept[0].log("info", "late")
    assert len(house.back.said) == 4


async def test_progress_extends_the_operations_time_up_to_its_cap_and_never_the_callers():
    class Busy(Scripted):
        async def execute(self, call, back):
            loop = asyncio.get_running_loop()
            began = loop.time()
            try:
                while True:
                    await back.progress(1)
                    await asyncio.sleep(0.01)
            finally:
                self.lasted = loop.time() - began

    work = Busy(operations=[Operation("busy", "busy", NOTHING, Effect.READ, timeout=0.05)])
    registry = Registry()
    registry.add(work)
    node = LocalNode(registry, allowlist(["*"]), MemoryRecord())
    assert (await node.invoke(invocation("busy"), KeptBack())).cause is Cause.DEADLINE
    assert 0.4 < work.lasted < 2
    assert (await node.invoke(invocation("busy", remaining=0.1), KeptBack())).cause is Cause.DEADLINE
    assert work.lasted < 0.4
    await node.aclose(0)


async def test_half_of_the_process_slots_are_one_callers_and_a_full_queue_is_refused():
    slow = Operation("wait", "wait", NOTHING, Effect.READ, slots=Slots.PROCESS)
    house = House(operations=[slow], slots=SlotLimits(process=4, waiting=1))
    first = [asyncio.create_task(house.call("wait")) for _ in range(3)]
    await until(lambda: len(house.work.calls) == 2)
    assert len(house.work.calls) == 2, "two of four slots are the owner's"
    other = asyncio.create_task(house.call("wait", caller=Caller("other")))
    await until(lambda: len(house.work.calls) == 3)
    assert (await house.call("wait")).category is Category.NODE_BUSY
    house.work.release.set()
    assert {type(answer) for answer in await asyncio.gather(*first, other)} == {Completed}
    await house.node.aclose(0)


async def test_a_slot_is_held_until_the_work_has_really_ended():
    ending = asyncio.Event()

    class Slow(Scripted):
        async def _wait(self):
            try:
                await super()._wait()
            finally:
                await ending.wait()

    work = Slow(operations=[Operation("wait", "wait", NOTHING, Effect.READ, slots=Slots.PROCESS)])
    registry = Registry()
    registry.add(work)
    node = LocalNode(registry, allowlist(["*"]), MemoryRecord(), slots=SlotLimits(process=2, waiting=0))
    call = asyncio.create_task(node.invoke(invocation("wait"), KeptBack()))
    await work.entered.wait()
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    assert (await node.invoke(invocation("wait"), KeptBack())).category is Category.NODE_BUSY
    ending.set()
    await node.aclose(1)


async def test_an_answer_that_is_no_json_or_over_its_cap_is_a_failure_in_words():
    house = House(operations=[Operation("echo", "echo", TEXT, Effect.READ, output_cap=100)])
    assert (await house.call("echo", {"text": "x" * 200})).category is Category.CAPABILITY_FAILURE
    house.work.answer = Completed(float("nan"))
    assert (await house.call("echo", {"text": "x"})).category is Category.CAPABILITY_FAILURE
    house.work.answer = Completed({1, 2})
    assert (await house.call("echo", {"text": "x"})).category is Category.CAPABILITY_FAILURE
    await house.node.aclose(0)


@pytest.mark.parametrize("kind", [Kind.READ, Kind.GET, Kind.COMPLETE])
async def test_kinds_without_offers_are_methods_not_found(house, kind):
    answer = await house.node.invoke(Invocation("x", OWNER, kind, "y", {}), house.back)
    assert answer == Fault(-32601, "Method not found")
    offer = await house.node.offered_to(OWNER)
    assert (offer.resources, offer.templates, offer.prompts) == ((), (), ())


async def test_new_rules_and_new_capabilities_show_in_the_next_offer_and_are_announced(house):
    changes = house.node.changes(OWNER)
    heard = asyncio.create_task(anext(changes))
    await asyncio.sleep(0)
    house.registry.add(Scripted(prefix="more."))
    async with asyncio.timeout(10):
        revision = await heard
    offer = await house.node.offered_to(OWNER)
    assert offer.revision == revision
    assert "more.echo" in [operation.name for operation in offer.operations]
    house.node.set_rules(allowlist(["more.*"]))
    names = [operation.name for operation in (await house.node.offered_to(OWNER)).operations]
    assert names
    assert all(name.startswith("more.") for name in names)
    await changes.aclose()


async def test_an_offer_is_worked_out_once_per_revision(house):
    assert await house.node.offered_to(OWNER) is await house.node.offered_to(OWNER)


async def test_closing_refuses_new_work_ends_old_work_and_closes_the_record(house):
    call = asyncio.create_task(house.call("wait"))
    await house.work.entered.wait()
    closing = asyncio.create_task(house.node.aclose(0))
    await asyncio.sleep(0)
    assert (await house.call("echo", {"text": "x"})).category is Category.NODE_BUSY
    answer = await call
    assert isinstance(answer, Failed)
    assert answer.cause is Cause.SHUTDOWN
    await closing
    assert house.record.ended


async def test_arguments_and_secrets_are_not_in_the_record(house, caplog):
    caplog.set_level(logging.DEBUG)
    await house.call("change", {"text": "the-secret", "confirm": True})
    assert "the-secret" not in repr(house.record.opened) + repr(house.record.closed) + caplog.text
    assert len(house.record.opened[0][0].fingerprint) == 64
