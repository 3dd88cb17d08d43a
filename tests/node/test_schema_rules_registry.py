"""Schemas are compiled once and read in linear time; rules are pure and closed when empty; the registry is live."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.node.errors import DuplicateOperationError, InvalidOperationError
from bascule.node.policy import decide, visible
from bascule.node.registry import Registry
from bascule.node.rules import InvalidRuleError, Rules, allowlist
from bascule.node.schema import MAX_VIOLATIONS, Schema, compile_mirrored
from bascule.node.terms import Allow, Ask, Call, Confirmation, Deny, Effect, Operation
from kit.doubles import NOTHING, OWNER, TEXT, Scripted

pytestmark = pytest.mark.anyio


def test_violations_name_pointer_and_rule_escape_it_and_mask_the_value():
    schema = Schema({"type": "object", "properties": {"a/b~": {"type": "array", "items": {"type": "integer"}}}})
    (violation,) = schema.violations({"a/b~": [1, "secret"]})
    assert (violation.pointer, violation.rule) == ("/a~1b~0/1", "type")
    assert "secret" not in str(violation)


def test_violations_are_bounded():
    schema = Schema({"type": "object", "additionalProperties": {"type": "integer"}})
    assert len(schema.violations({str(number): "x" for number in range(1000)})) == MAX_VIOLATIONS


@pytest.mark.parametrize(
    "dialect",
    ["draft-04/schema#", "draft-06/schema#", "draft-07/schema#", "draft/2019-09/schema", "draft/2020-12/schema"],
)
def test_known_dialects_are_read_by_their_name(dialect):
    scheme = "https" if "draft/" in dialect else "http"
    assert Schema({"$schema": f"{scheme}://json-schema.org/{dialect}", "type": "object"}).violations([])


@pytest.mark.parametrize(
    "source",
    [
        {"$schema": "http://json-schema.org/draft-03/schema#"},
        {"$schema": "urn:unknown"},
        {"$ref": "http://127.0.0.1:9/schema"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/nowhere"},
        {"type": "objekt"},
        {"pattern": "(?=a)b"},
        {"pattern": r"(a)\1"},
        {"pattern": "((a{1000}){1000}){1000}"},
        {"enum": ["x" * 70_000]},
        {"anyOf": [{"const": number} for number in range(11_000)]},
    ],
)
def test_what_cannot_be_read_safely_is_refused_at_compile_time(source):
    with pytest.raises(InvalidOperationError):
        Schema(source)


def test_a_schema_nested_past_its_limit_is_refused():
    source = {}
    for _ in range(70):
        source = {"anyOf": [source]}
    with pytest.raises(InvalidOperationError):
        Schema(source)


def test_recursive_references_stay_and_read():
    tree = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    assert not Schema(tree).violations({"children": [{"children": []}]})
    assert Schema(tree).violations({"children": [{"x": 1}]})


def test_a_hostile_pattern_does_not_hang():
    schema = Schema({"type": "string", "pattern": "^(a+)+$"})
    began = time.perf_counter()
    assert schema.violations("a" * 100_000 + "b")
    assert time.perf_counter() - began < 5


def test_doubled_references_do_not_explode():
    levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}, {"$ref": f"#/$defs/l{n + 1}"}]} for n in range(40)}
    schema = Schema({"$ref": "#/$defs/l34", "$defs": {**levels, "l40": {"type": "integer"}}})
    assert schema.violations("x")


def test_big_integers_are_exact_and_true_is_no_integer():
    schema = Schema({"type": "integer", "maximum": 9007199254740993})
    assert not schema.violations(9007199254740993)
    assert schema.violations(9007199254740994)
    assert schema.violations(True)


def test_a_mirrored_schema_loses_only_the_patterns_that_cannot_be_matched():
    source = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": "(?=x)y"}, "b": {"type": "string", "pattern": "^b+$"}},
        "required": ["a"],
    }
    schema, ignored = compile_mirrored(source)
    assert len(ignored) == 1
    assert "/properties/a/pattern" in ignored[0]
    assert not schema.violations({"a": "anything", "b": "bb"})
    assert schema.violations({"a": 1})
    assert schema.violations({"a": "x", "b": "c"})
    assert source["properties"]["a"]["pattern"] == "(?=x)y", "the server's own schema is not touched"


def test_defaults_fill_what_is_absent_and_are_not_shared():
    schema = Schema({"type": "object", "properties": {"list": {"default": []}, "n": {"default": 3}}})
    first, second = schema.completed({"n": 5}), schema.completed({})
    first["list"].append(1)
    assert second == {"list": [], "n": 3}
    assert first["n"] == 5


# -- rules and policy --

NAMES = st.from_regex(r"[a-z]{1,4}(\.[a-z]{1,4}){0,2}", fullmatch=True)


@given(NAMES)
def test_without_a_rule_nothing_is_visible(name):
    assert isinstance(visible(Rules(), Operation(name, "x", NOTHING, Effect.READ)), Deny)


@given(NAMES, st.lists(NAMES, max_size=4))
def test_names_allow_exactly_themselves(name, others):
    rules = allowlist(others)
    assert (rules.allowing(name) is not None) == (name in others)


@given(NAMES, NAMES)
def test_a_glob_allows_what_begins_like_it(first, second):
    rules = allowlist([f"{first}.*"])
    assert rules.allowing(f"{first}.{second}")
    assert not rules.allowing(f"x{first}.{second}")


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [("*", "a.b", True), ("a*c", "abc", True), ("a*c", "ac", True), ("a*c", "a", False), ("a*b*c", "aXbYc", True),
     ("*.info", "device.info", True), ("a*a", "a", False), ("*ab*ab", "abab", True), ("*ab*ab", "ab", False)],
)  # fmt: skip
def test_globs(glob, name, fits):
    assert (allowlist([glob]).allowing(name) is not None) is fits


def test_a_glob_of_many_stars_is_matched_in_linear_time():
    rules = allowlist(["a*" * 31])
    began = time.perf_counter()
    assert rules.allowing("a" * 60 + "b")
    assert not rules.allowing("b" * 60)
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize("entry", ["", "a b", "!a", "a/b", "ä", "a" * 65])
def test_an_entry_that_can_name_nothing_is_refused(entry):
    with pytest.raises(InvalidRuleError):
        allowlist([entry])


@given(
    st.sampled_from(list(Effect)),
    st.sampled_from([None, *Confirmation]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_every_call_gets_a_verdict_and_effects_are_never_allowed_unasked(
    effect, confirmation, dry_run, confirm, allowed
):
    operation = Operation("a", "x", NOTHING, effect, confirmation=confirmation)
    call = Call("1", OWNER, operation, {}, dry_run=dry_run, confirm=confirm)
    verdict = decide(allowlist(["a"] if allowed else []), call)
    assert verdict == decide(allowlist(["a"] if allowed else []), call)
    assert isinstance(verdict, Allow | Deny | Ask)
    if not allowed:
        assert isinstance(verdict, Deny)
    elif dry_run:
        assert isinstance(verdict, Allow)
    elif effect is Effect.DESTRUCTIVE and confirmation is None:
        assert isinstance(verdict, Ask)
    elif effect is Effect.WRITE and confirmation is None:
        assert isinstance(verdict, Allow) == confirm


# -- registry --


def one(name="a.b", **more):
    return Scripted(
        operations=[Operation(name, more.pop("description", "x"), more.pop("arguments", NOTHING), Effect.READ, **more)]
    )


def test_names_are_unique_and_adding_is_all_or_nothing():
    registry = Registry()
    registry.add(one())
    both = Scripted(
        operations=[Operation("new", "x", NOTHING, Effect.READ), Operation("a.b", "x", NOTHING, Effect.READ)]
    )
    with pytest.raises(DuplicateOperationError):
        registry.add(both)
    assert registry.find("new") is None


@pytest.mark.parametrize("name", ["", "a b", "Create CIFS Share", ".a", "a.", "a..b", "1a", "ä", "a" * 65, "a\n"])
def test_a_name_that_could_be_read_in_two_ways_is_refused(name):
    with pytest.raises(InvalidOperationError):
        Registry().add(one(name))


@pytest.mark.parametrize(
    "bad",
    [{"description": " "}, {"timeout": 0}, {"timeout": float("inf")}, {"output_cap": 0}, {"arguments": {"type": "array"}},
     {"arguments": {}}, {"result": {"type": "objekt"}}],
)  # fmt: skip
def test_an_operation_that_cannot_work_is_refused_by_name(bad):
    with pytest.raises(InvalidOperationError, match=r"a\.b"):
        Registry().add(one(**bad))


def test_an_argument_may_not_have_the_name_of_a_control_argument_where_there_are_any():
    arguments = {"type": "object", "properties": {"dry_run": {"type": "string"}}}
    with pytest.raises(InvalidOperationError):
        Registry().add(Scripted(operations=[Operation("w", "x", arguments, Effect.WRITE)]))
    Registry().add(Scripted(operations=[Operation("r", "x", arguments, Effect.READ)]))


async def test_order_is_that_of_adding_and_removal_is_announced():
    registry = Registry()
    first, second = one("z"), one("a")
    registry.add(first)
    registry.add(second)
    assert [entry.operation.name for entry in registry.entries] == ["z", "a"]
    changes = registry.changes()
    heard = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    registry.remove(first)
    async with asyncio.timeout(10):
        assert await heard == registry.revision
    assert registry.find("z") is None
    registry.remove(first)
    await changes.aclose()


async def test_changes_nobody_looked_at_are_one_change():
    registry = Registry()
    changes = registry.changes()
    heard = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    for number in range(5):
        registry.add(one(f"n{number}"))
    assert await heard == registry.revision
    await changes.aclose()


def test_text_schema_of_the_doubles_is_closed_by_default():
    registry = Registry()
    registry.add(Scripted(operations=[Operation("e", "x", TEXT, Effect.READ)]))
    entry = registry.find("e")
    assert entry is not None
    assert entry.schema.violations({"text": "x", "y": 1})
