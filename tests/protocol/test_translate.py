"""Operations to tools, params to invocations, answers to results: words in, words out, no connection."""

import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import methods

from bascule.identity import Caller
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
    NeedsAnswer,
    Passed,
    Refused,
    Slots,
)
from bascule.protocol import translate
from bascule.protocol.translate import Era, fold, for_era, result, stamped, tool
from kit.nodes import operation

ALICE = Caller("alice")
ERAS = {Era.MODERN: "2026-07-28", Era.INITIALIZE: "2025-11-25"}


def asked(params, **other):
    given = {"name": "thing.do", "caller": ALICE, "if_dropped": Cause.ABANDONED} | other
    return translate.invocation(params, **given)


def text(made):
    assert [block["type"] for block in made["content"]] == ["text"]
    return made["content"][0]["text"]


# -- names and tools --


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("device.info", "device_info"),
        ("already_fine-1", "already_fine-1"),
        ("Create CIFS Share", "Create_CIFS_Share"),
        ("größe", "gr__e"),
        ("a/b:c", "a_b_c"),
        ("line\nbreak", "line_break"),
        ("٣", "_"),
        ("", ""),
    ],
)
def test_every_character_a_client_could_choke_on_becomes_an_underscore(name, folded):
    assert fold(name) == folded


@given(st.text())
def test_folding_keeps_the_length_and_is_stable(name):
    assert len(fold(name)) == len(name)
    assert fold(fold(name)) == fold(name)


def test_a_tool_says_what_its_operation_is():
    made = tool(
        operation(
            "service.restart",
            title="Restart",
            effect=Effect.WRITE,
            timeout=2.5,
            slots=Slots.PROCESS,
            arguments={"type": "object", "properties": {"b": {}, "a": {}}},
        )
    )
    assert made == {
        "name": "service_restart",
        "title": "Restart",
        "description": "Do service.restart.",
        "inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}},
        "annotations": {
            "title": "Restart",
            "readOnlyHint": False,
            "destructiveHint": False,
            "openWorldHint": True,
        },
        "_meta": {
            "bascule/operation": "service.restart",
            "bascule/effect": "write",
            "bascule/confirmation": "confirm",
            "bascule/timeoutMs": 2500,
        },
    }
    assert list(made["inputSchema"]["properties"]) == ["b", "a"]


@pytest.mark.parametrize(
    ("effect", "read_only", "destructive", "confirmation"),
    [
        (Effect.READ, True, False, "none"),
        (Effect.WRITE, False, False, "confirm"),
        (Effect.DESTRUCTIVE, False, True, "human"),
    ],
)
def test_annotations_follow_the_effect(effect, read_only, destructive, confirmation):
    made = tool(operation("x", effect=effect))
    assert made["annotations"]["readOnlyHint"] is read_only
    assert made["annotations"]["destructiveHint"] is destructive
    assert made["annotations"]["openWorldHint"] is False
    assert made["_meta"]["bascule/confirmation"] == confirmation


def test_without_a_title_the_real_name_is_the_title():
    assert tool(operation("device.info"))["title"] == "device.info"


def test_another_servers_definition_is_given_on_as_it_is():
    definition = {"x-own": [None], "name": "t", "inputSchema": {"type": "object", "zeta": 1}, "icons": "odd"}
    assert tool(operation("far.t", definition=Passed(definition))) is definition


def test_an_output_schema_also_fits_the_preview_of_an_operation_that_has_one():
    ours = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"done": {"type": "boolean"}},
        "required": ["done"],
    }
    schema = tool(operation("x", effect=Effect.WRITE, result=ours))["outputSchema"]
    validator = jsonschema_rs.validator_for(schema)
    assert schema["type"] == "object"
    for answer in (Completed({"done": True}), Completed([1], applied=False)):
        for era in Era:
            made = result(answer, operation_id="i", era=era)
            assert validator.is_valid(made["structuredContent"]), answer
    assert not validator.is_valid({"done": 1})


def test_an_output_schema_of_a_read_stays_as_it_is():
    ours = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array"}}}
    assert tool(operation("x", result=ours))["outputSchema"] == ours


@pytest.mark.parametrize("inner", [{"$ref": "#/$defs/n"}, {"items": [{"$dynamicRef": "#n"}]}, {"not": {"$id": "a:b"}}])
def test_an_output_schema_that_refers_to_its_own_root_is_left_out_rather_than_moved(inner):
    ours = {"type": "object", "properties": {"a": inner}, "$defs": {"n": {}}}
    assert "outputSchema" not in tool(operation("x", confirmation=Confirmation.PREVIEW, result=ours))


def test_only_schemas_of_objects_are_shown_to_the_initialize_era():
    array = tool(operation("x", result={"type": "array"}))
    thing = tool(operation("y", result={"type": "object"}))
    assert for_era(array, Era.MODERN) == array
    assert "outputSchema" not in for_era(array, Era.INITIALIZE)
    assert {**for_era(array, Era.INITIALIZE), "outputSchema": {"type": "array"}} == array
    assert for_era(thing, Era.INITIALIZE) == thing


# -- params --


def test_params_become_an_invocation():
    params = {
        "name": "thing_do",
        "arguments": {"b": 1, "a": 10**400},
        "inputResponses": {"q": {"action": "accept"}},
        "_meta": {"bascule/deadlineMs": 1500, "bascule/idempotencyKey": "k-1", "x": None},
    }
    made = asked(params, trace="t1", if_dropped=Cause.CANCELLED)
    assert isinstance(made, Invocation)
    assert (made.name, made.caller, made.trace, made.if_dropped) == ("thing.do", ALICE, "t1", Cause.CANCELLED)
    assert made.arguments == {"b": 1, "a": 10**400}
    assert made.remaining == 1.5
    assert made.key == "k-1"
    assert made.answers == {"q": {"action": "accept"}}
    assert made.params == Passed(params)


@pytest.mark.parametrize("params", [{"name": "t"}, {"name": "t", "arguments": None}])
def test_no_arguments_are_no_members(params):
    made = asked(params)
    assert made.arguments == {}
    assert (made.key, made.remaining, made.answers) == (None, None, {})


def test_arguments_of_another_type_are_left_for_the_node_to_refuse():
    assert asked({"arguments": [1]}).arguments == [1]


def test_ids_are_never_the_same():
    assert len({asked({}).id for _ in range(1000)}) == 1000


@pytest.mark.parametrize("deadline", [0, -1, True, "1000", [], float("nan"), float("inf"), -0.0])
def test_a_deadline_that_is_no_time_is_refused(deadline):
    made = asked({"_meta": {"bascule/deadlineMs": deadline}})
    assert isinstance(made, Refused)
    assert made.category is Category.INVALID_REQUEST
    assert "bascule/deadlineMs" in made.message


@pytest.mark.parametrize("deadline", [10**400, 1e300])
def test_a_deadline_beyond_all_measure_is_a_day(deadline):
    assert asked({"_meta": {"bascule/deadlineMs": deadline}}).remaining == 86_400


@pytest.mark.parametrize("key", ["", "a" * 129, "a b", "ü", "a\n", "\x7f", 7, ["k"], {}, True])
def test_a_key_that_cannot_be_kept_is_refused(key):
    made = asked({"_meta": {"bascule/idempotencyKey": key}})
    assert isinstance(made, Refused)
    assert made.category is Category.INVALID_REQUEST


@pytest.mark.parametrize("key", ["a", "!~" * 64])
def test_a_key_of_visible_ascii_is_kept_from_either_place(key):
    assert asked({"_meta": {"bascule/idempotencyKey": key}}).key == key
    assert asked({}, header_key=key).key == key
    assert asked({"_meta": {"bascule/idempotencyKey": key}}, header_key=key).key == key


def test_two_keys_that_disagree_are_refused():
    assert isinstance(asked({"_meta": {"bascule/idempotencyKey": "a"}}, header_key="b"), Refused)
    assert isinstance(asked({}, header_key=""), Refused)


@pytest.mark.parametrize("meta", [None, [], "text", 7])
def test_meta_that_is_no_object_says_nothing(meta):
    assert isinstance(asked({"_meta": meta}), Invocation)


# -- results --


def every_answer():
    values = [None, "plain", "", {"a": [1, None]}, [1, 2], 7, 0.5, True, {}, []]
    yield from (Completed(value) for value in values)
    yield from (Completed(value, applied=False) for value in values)
    yield Refused(Category.PERMISSION_DENIED, "no")
    yield Failed(Category.COMMAND_FAILED, "exit 1", value={"exitCode": 1})
    yield NeedsAnswer("ask someone", question_id="q1")


@pytest.mark.parametrize("era", Era)
@pytest.mark.parametrize("structured", [False, True])
def test_every_result_is_one_the_sdk_would_send_unchanged_and_carries_its_operation_id(era, structured):
    for answer in every_answer():
        made = result(answer, operation_id="op-1", era=era, structured=structured)
        assert made["_meta"]["bascule/operationId"] == "op-1"
        assert isinstance(made["isError"], bool)
        if era is Era.MODERN:
            made = stamped(made, {"name": "n", "version": "1"})
        if made.get("structuredContent", 0) is not None:  # the SDK's models have no word for a structured null
            assert methods.serialize_server_result("tools/call", ERAS[era], made) == made


@pytest.mark.parametrize("era", Era)
def test_text_and_structured_content_are_each_complete(era):
    value = {"b": [1, {"c": "ä"}], "a": 10**30}
    made = result(Completed(value), operation_id="i", era=era)
    assert made["structuredContent"] == value
    assert list(made["structuredContent"]) == ["b", "a"]
    assert json.loads(text(made)) == value
    assert "ä" in text(made)
    assert made["isError"] is False


def test_a_text_is_given_as_itself_and_not_doubled():
    for era in Era:
        made = result(Completed('say "hi"'), operation_id="i", era=era)
        assert text(made) == 'say "hi"'
        assert "structuredContent" not in made


def test_nothing_to_show_is_still_said():
    assert text(result(Completed(None), operation_id="i", era=Era.MODERN)) == "Done."


def test_other_json_is_structured_only_where_the_revision_has_it():
    assert result(Completed([1]), operation_id="i", era=Era.MODERN)["structuredContent"] == [1]
    legacy = result(Completed([1]), operation_id="i", era=Era.INITIALIZE)
    assert "structuredContent" not in legacy
    assert text(legacy) == "[1]"


def test_a_tool_with_an_output_schema_gives_even_a_text_as_a_value():
    made = result(Completed("x"), operation_id="i", era=Era.MODERN, structured=True)
    assert made["structuredContent"] == "x"
    assert text(made) == "x"


@pytest.mark.parametrize("era", Era)
def test_a_preview_says_that_nothing_was_applied_wherever_a_client_looks(era):
    made = result(Completed({"argv": ["rm"]}, applied=False), operation_id="i", era=era)
    assert text(made).startswith("Preview: not applied.")
    assert '{"argv":["rm"]}' in text(made)
    assert made["structuredContent"] == {"applied": False, "plan": {"argv": ["rm"]}}
    assert made["_meta"]["bascule/outcome"] == {"state": "preview", "effect": "none"}
    assert made["isError"] is False


def test_failures_are_words_and_never_structured_content():
    answers = [
        Refused(Category.NODE_BUSY, "busy", detail="secret detail"),
        NeedsAnswer("ask", detail="secret detail"),
        Failed(Category.TIMEOUT, "too slow", detail="secret detail", value={"stdout": "half"}),
    ]
    for answer in answers:
        made = result(answer, operation_id="i", era=Era.MODERN)
        assert made["isError"] is True
        assert "structuredContent" not in made
        assert "secret detail" not in json.dumps(made)
    assert made["_meta"]["bascule/category"] == "timeout"


def test_a_failure_says_how_far_it_came():
    failed = Failed(Category.COMMAND_FAILED, "exit 3", value={"stdout": "half"}, cause=Cause.DEADLINE)
    made = result(failed, operation_id="i", era=Era.MODERN)
    assert text(made) == 'exit 3 (its effect may be partial)\n{"stdout":"half"}'
    assert made["_meta"]["bascule/outcome"] == {
        "state": "failed",
        "effect": "may be partial",
        "category": "command_failed",
        "cause": "deadline",
    }


def test_words_about_the_effect_are_not_said_twice():
    failed = Failed(Category.TIMEOUT, "stopped; its effect may be partial")
    assert text(result(failed, operation_id="i", era=Era.MODERN)) == "stopped; its effect may be partial"
    harmless = Failed(Category.TIMEOUT, "stopped", effect=EffectState.NONE)
    assert text(result(harmless, operation_id="i", era=Era.MODERN)) == "stopped"


def test_a_question_names_itself():
    made = result(NeedsAnswer("ask", question_id="q-1"), operation_id="i", era=Era.MODERN)
    assert made["_meta"]["bascule/category"] == "approval_pending"
    assert made["_meta"]["bascule/question"] == "q-1"


LIMIT = translate.MAX_OWN_RESULT


def test_a_text_up_to_the_limit_is_whole():
    whole = "x" * LIMIT
    assert text(result(Completed(whole), operation_id="i", era=Era.MODERN)) == whole


@pytest.mark.parametrize("character", ["x", "ä", "𝄞"])
def test_a_longer_text_is_cut_to_a_stated_excerpt(character):
    size = len(character.encode())
    long = character * (LIMIT // size + 1)
    made = text(result(Completed(long), operation_id="i", era=Era.MODERN))
    kept, _, mark = made.rpartition("\n")
    assert long.startswith(kept)
    assert LIMIT - 4 < len(kept.encode()) <= LIMIT
    assert mark == f"[excerpt: the first {len(kept.encode())} of {len(long.encode())} bytes]"


def test_beside_structured_content_the_text_shrinks_and_the_content_stays_whole():
    value = {"lines": ["y" * 1000] * (LIMIT // 2 // 1000)}
    made = result(Completed(value), operation_id="i", era=Era.MODERN)
    assert made["structuredContent"] == value
    assert len(text(made)) < 70_000
    assert f"of {len(json.dumps(value, separators=(',', ':')))} bytes; structuredContent holds the whole" in text(made)
    plan = result(Completed(value, applied=False), operation_id="i", era=Era.MODERN)
    assert plan["structuredContent"]["plan"] == value
    assert text(plan).startswith("Preview: not applied.")
    assert "excerpt" in text(plan)


def test_a_value_that_is_no_json_is_never_half_sent():
    with pytest.raises(ValueError, match="not finite"):
        result(Completed({"a": float("nan")}), operation_id="i", era=Era.MODERN)


def test_a_fault_is_no_result():
    with pytest.raises(TypeError):
        result(Fault(-32000, "x"), operation_id="i", era=Era.MODERN)


# -- what crosses --

FOREIGN = {
    "zeta": {"unknown": None},
    "resultType": "complete",
    "content": [{"type": "hologram", "data": "x", "nothing": None}],
    "structuredContent": [1, None],
    "isError": False,
    "ttlMs": 5,
    "cacheScope": "private",
    "_meta": {
        "io.modelcontextprotocol/serverInfo": {"name": "far", "version": "9"},
        "bascule/operationId": "far-1",
        "vendor/x": None,
    },
}


def test_another_servers_result_crosses_whole_but_for_whose_it_is():
    made = stamped(result(Passed(FOREIGN), operation_id="near", era=Era.MODERN), {"name": "near", "version": "1"})
    meta = FOREIGN["_meta"] | {"io.modelcontextprotocol/serverInfo": {"name": "near", "version": "1"}}
    assert made == FOREIGN | {"_meta": meta}
    assert [key for key in made if key != "resultType"] == [key for key in FOREIGN if key != "resultType"]
    assert FOREIGN["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "far"


def test_to_the_initialize_era_it_loses_only_what_that_era_does_not_have():
    made = result(Passed(FOREIGN), operation_id="near", era=Era.INITIALIZE)
    assert made == {
        "zeta": {"unknown": None},
        "content": FOREIGN["content"],
        "isError": False,
        "_meta": {"bascule/operationId": "far-1", "vendor/x": None},
    }


def test_passed_content_is_never_shortened():
    large = Passed({"content": [{"type": "text", "text": "x" * (LIMIT + 1)}]})
    for era in Era:
        assert result(large, operation_id="i", era=era)["content"] == large.payload["content"]


def test_a_question_crosses_to_who_can_answer_it_and_is_said_in_words_to_who_cannot():
    question = {"resultType": "input_required", "inputRequests": {}, "requestState": "s", "_meta": None}
    assert stamped(result(Passed(question), operation_id="i", era=Era.MODERN), {})["resultType"] == "input_required"
    made = result(Passed(question), operation_id="i", era=Era.INITIALIZE)
    assert made["isError"] is True
    assert made["_meta"]["bascule/category"] == "approval_pending"


@pytest.mark.parametrize("payload", [None, [], "text", 7])
def test_what_is_no_result_is_refused_by_us(payload):
    for era in Era:
        with pytest.raises(TypeError):
            result(Passed(payload), operation_id="i", era=era)
