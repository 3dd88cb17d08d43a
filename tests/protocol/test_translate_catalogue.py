"""What one caller is shown: no single bad definition takes a listing down, and every page arrives."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import methods

from bascule.node.terms import Effect, Offer, Passed, Revision
from bascule.protocol import catalogue
from bascule.protocol.catalogue import Catalogue, InvalidCursorError, project
from bascule.protocol.translate import Era
from kit.nodes import operation

VERSIONS = {Era.MODERN: "2026-07-28", Era.INITIALIZE: "2024-11-05"}


def foreign(name, **definition):
    given = {"name": name, "inputSchema": {"type": "object"}} | definition
    return operation(f"far.{name}", definition=Passed(given))


def shown(operations, era=Era.MODERN, **offer):
    return [tool["name"] for tool in everything(project(Offer(Revision(1), tuple(operations), **offer)), era)]


def everything(made, era):
    tools, cursor = made.page(era, None)
    listed = list(tools)
    while cursor is not None:
        tools, cursor = made.page(era, cursor)
        assert tools, "a page without tools"
        listed += tools
    return listed


def test_tools_keep_the_order_of_their_operations():
    made = [operation(name) for name in ("z.z", "a.a", "m")]
    assert shown(made) == shown(made, Era.INITIALIZE) == ["z_z", "a_a", "m"]


def test_of_two_names_that_fold_alike_the_first_stays_and_the_second_is_told():
    made = project(Offer(Revision(1), (operation("a.b"), operation("a_b"), operation("a b"))))
    assert [tool["_meta"]["bascule/operation"] for tool in everything(made, Era.MODERN)] == ["a.b"]
    assert [name for name, _ in made.set_aside] == ["a_b", "a b"]
    assert made.operation_of("a_b") == "a.b"


def test_both_spellings_stand_for_the_operation_and_any_other_name_for_itself():
    made = project(Offer(Revision(1), (operation("a.b"), foreign("far_tool", _meta={"bascule/operation": "far.real"}))))
    assert made.operation_of("a.b") == made.operation_of("a_b") == "a.b"
    assert {made.operation_of(name) for name in ("far_tool", "far.real", "far.far_tool")} == {"far.far_tool"}
    assert made.operation_of("nobody.knows") == "nobody.knows"


def test_no_definition_can_claim_the_name_of_another_operation():
    thief = foreign("thief", _meta={"bascule/operation": "a.b"})
    for offered in ((thief, operation("a.b")), (operation("a.b"), thief)):
        made = project(Offer(Revision(1), offered))
        assert made.operation_of("a.b") == "a.b"
        assert made.operation_of("a_b") == "a.b"
        assert made.operation_of("thief") == "far.thief"


UNREADABLE = {
    "no input schema": {"inputSchema": None},
    "input schema of another type": {"inputSchema": {"type": "array"}},
    "input schema of several types": {"inputSchema": {"type": ["object"]}},
    "input schema without a type": {"inputSchema": {}},
    "input schema that is a truth": {"inputSchema": True},
    "$schema that is no text": {"inputSchema": {"type": "object", "$schema": 7}},
    "hint that is no truth": {"annotations": {"readOnlyHint": "perhaps"}},
    "annotations that are a list": {"annotations": []},
    "description that is a number": {"description": 7},
    "meta that is a text": {"_meta": "x"},
    "a number JSON does not have": {"x": float("nan")},
}


@pytest.mark.parametrize("broken", UNREADABLE.values(), ids=UNREADABLE)
def test_a_definition_nobody_can_read_is_set_aside_and_told_once(broken):
    offer = Offer(Revision(1), (operation("before"), foreign("broken", **broken), operation("after")))
    made = project(offer)
    for era in Era:
        assert [tool["name"] for tool in everything(made, era)] == ["before", "after"]
    assert {name for name, _ in made.set_aside} == {"far.broken"}
    assert all(reason for _, reason in made.set_aside)


@pytest.mark.parametrize("payload", [None, [], "tool", 7, {}, {"name": 7}, {"name": ""}, {"name": ["a"]}])
def test_what_is_no_definition_at_all_is_set_aside(payload):
    broken = operation("far.broken", definition=Passed(payload))
    assert shown([broken, operation("fine")]) == ["fine"]


def test_what_one_era_cannot_read_is_still_shown_to_the_other():
    only_modern = foreign("t", inputSchema={"type": "object", "required": "all"})
    made = project(Offer(Revision(1), (only_modern, operation("fine"))))
    assert [tool["name"] for tool in everything(made, Era.MODERN)] == ["t", "fine"]
    assert [tool["name"] for tool in everything(made, Era.INITIALIZE)] == ["fine"]
    assert made.operation_of("t") == "far.t"


UNUSABLE = {
    "dangling reference": {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
    "remote reference": {"type": "object", "properties": {"a": {"$ref": "https://example.org/a.json"}}},
    "unknown type": {"type": "thing"},
    "required of another type": {"type": "object", "required": True},
    "a text": "x",
}


@pytest.mark.parametrize("output", UNUSABLE.values(), ids=UNUSABLE)
def test_an_output_schema_that_cannot_be_used_is_left_out_and_the_tool_stays(output):
    made = project(Offer(Revision(1), (foreign("t", outputSchema=output, title="T"),)))
    for era in Era:
        [tool] = everything(made, era)
        assert "outputSchema" not in tool
        assert tool["title"] == "T"
    assert {name for name, _ in made.warnings} == {"far.t"}


def test_an_output_schema_only_the_newer_era_can_read_is_shown_to_it():
    output = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "x-own": [None]}
    array = foreign("array", outputSchema={"type": "array", "items": {}})
    made = project(Offer(Revision(1), (foreign("thing", outputSchema=output), array)))
    modern, legacy = everything(made, Era.MODERN), everything(made, Era.INITIALIZE)
    assert [tool.get("outputSchema") for tool in modern] == [output, {"type": "array", "items": {}}]
    assert [tool.get("outputSchema") for tool in legacy] == [output, None]
    assert made.warnings == ()


def test_a_pattern_no_linear_engine_takes_costs_no_output_schema():
    output = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)y"}}}
    [tool] = everything(project(Offer(Revision(1), (foreign("t", outputSchema=output),))), Era.MODERN)
    assert tool["outputSchema"] == output


def test_definitions_of_another_server_are_shown_with_everything_in_them():
    definition = {
        "x-vendor": {"a": None},
        "name": "far",
        "inputSchema": {"type": "object", "$defs": {"N": {"$ref": "#/$defs/N"}}, "properties": {"n": {"x-a": 1}}},
        "annotations": {"vendorHint": 7},
        "_meta": {"vendor/x": None},
        "icons": [],
    }
    made = project(Offer(Revision(1), (operation("far", definition=Passed(definition)),)))
    for era in Era:
        [tool] = everything(made, era)
        assert tool == definition
        assert list(tool) == list(definition)


def test_what_the_node_set_aside_is_told_too():
    assert project(Offer(Revision(1), set_aside=(("x", "why"),))).set_aside == (("x", "why"),)


def test_a_name_longer_than_clients_show_is_listed_with_a_warning():
    made = project(Offer(Revision(1), (operation("a" * 65), operation("b" * 64))))
    assert len(everything(made, Era.MODERN)) == 2
    assert [name for name, _ in made.warnings] == ["a" * 65]


def test_only_our_own_tools_with_a_shown_output_schema_promise_a_structured_value():
    ours, theirs = operation("ours", result={"type": "string"}), foreign("t", outputSchema={"type": "object"})
    hidden = operation("moved", effect=Effect.WRITE, result={"$ref": "#"})
    assert project(Offer(Revision(1), (ours, theirs, hidden))).structured == {"ours"}


def test_arguments_that_go_into_headers_are_known_and_those_that_cannot_are_warned_of():
    good = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    plain = {"type": "object", "properties": {"a": {"type": "string"}}}
    offered = [operation(name, arguments=schema) for name, schema in {"good": good, "bad": bad, "plain": plain}.items()]
    made = project(Offer(Revision(1), tuple(offered)))
    assert made.mirrored == {"good": good}
    assert [name for name, _ in made.warnings] == ["bad"]
    assert len(everything(made, Era.MODERN)) == 3


# -- pages --


def test_an_ordinary_catalogue_is_one_page():
    made = project(Offer(Revision(1), tuple(operation(f"op{n}") for n in range(catalogue.PAGE))))
    tools, cursor = made.page(Era.MODERN, None)
    assert len(tools) == catalogue.PAGE
    assert cursor is None


def test_no_operations_are_one_empty_page():
    assert project(Offer(Revision(1))).page(Era.INITIALIZE, None) == ((), None)
    assert Catalogue().page(Era.MODERN, None) == ((), None)


def test_thousands_of_operations_arrive_each_once_and_in_order():
    names = [f"op{n}" for n in range(2 * catalogue.PAGE + 1)]
    assert shown([operation(name) for name in names]) == names


def test_pages_are_cut_by_bytes_too_and_a_definition_larger_than_a_page_has_its_own():
    large = {"type": "object", "description": "x" * (catalogue.PAGE_BYTES // 2 - 1000)}
    huge = {"type": "object", "description": "x" * (catalogue.PAGE_BYTES + 1)}
    schemas = {"a": large, "b": large, "c": large, "d": huge, "e": large}
    made = project(Offer(Revision(1), tuple(operation(name, arguments=schema) for name, schema in schemas.items())))
    assert [[tool["name"] for tool in page] for page in made.pages[Era.MODERN]] == [["a", "b"], ["c"], ["d"], ["e"]]
    assert [tool["name"] for tool in everything(made, Era.MODERN)] == list(schemas)


def paged(revision=1):
    return project(Offer(Revision(revision), tuple(operation(f"op{n}") for n in range(catalogue.PAGE + 1))))


def test_a_cursor_of_another_revision_is_unknown():
    _, cursor = paged(1).page(Era.MODERN, None)
    assert paged(1).page(Era.MODERN, cursor)[0][0]["name"] == f"op{catalogue.PAGE}"
    with pytest.raises(InvalidCursorError):
        paged(2).page(Era.MODERN, cursor)


@pytest.mark.parametrize("cursor", ["", "8", "x", "MTow", "MToy", "MTotMQ==", "MTox ", "MTox\n", "ü", "=", "MTow=="])
def test_a_cursor_nobody_gave_is_unknown(cursor):
    with pytest.raises(InvalidCursorError):
        paged().page(Era.MODERN, cursor)


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_no_text_is_a_cursor_but_the_one_that_was_given(cursor):
    made = MADE
    _, given_cursor = made.page(Era.MODERN, None)
    if cursor != given_cursor:
        with pytest.raises(InvalidCursorError):
            made.page(Era.MODERN, cursor)


MADE = paged()

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBER = st.sampled_from(["name", "inputSchema", "outputSchema", "annotations", "_meta", "title", "icons", "x"])
SCHEMA = st.fixed_dictionaries(
    {"type": st.just("object")}, optional={"required": JSON, "properties": JSON, "$ref": JSON}
)


@given(st.lists(st.dictionaries(MEMBER, JSON | SCHEMA, max_size=5), max_size=6))
@settings(max_examples=300, deadline=None)
def test_whatever_another_server_defines_the_listing_is_one_the_sdk_would_send(definitions):
    offered = tuple(operation(f"far{n}", definition=Passed(one)) for n, one in enumerate(definitions))
    made = project(Offer(Revision(1), (*offered, operation("ours"))))
    for era, version in VERSIONS.items():
        tools = everything(made, era)
        assert "ours" in [tool["name"] for tool in tools]
        listing = {"tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        methods.validate_server_result("tools/list", version, listing)
