"""Strict JSON in, exact JSON out."""

import datetime as dt
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule import wire

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON)
def test_what_is_written_reads_back_the_same_in_order_and_type(value):
    again = wire.read(wire.write(value))
    assert json.dumps(again) == json.dumps(value)


@given(JSON)
def test_what_is_written_is_one_line_of_utf8(value):
    data = wire.write(value)
    assert b"\n" not in data
    data.decode("utf-8")


@given(st.binary(max_size=60))
def test_whatever_is_read_is_what_the_standard_parser_reads(data):
    try:
        value = wire.read(data)
    except wire.WireError:
        return
    assert json.dumps(value) == json.dumps(json.loads(data))


# JSON texts in every spelling there is, some of them spoilt: what binary noise never hits.
SPACE = st.text(" \t\r\n", max_size=2)
CHARACTER = st.sampled_from(
    [
        "a",
        "é",
        "\u2028",
        "\U0001f600",
        "\\u0061",
        "\\ud83d\\ude00",
        "\\ud800",
        "\\udc00\\ud800",
        '\\"',
        "\\n",
        "\\/",
        "\\x",
        "\n",
        "\x7f",
    ]
)
STRING = st.lists(CHARACTER, max_size=3).map(lambda parts: f'"{"".join(parts)}"')
NUMBER = st.from_regex(r"\A-?[0-9]{1,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,4})?\Z") | st.sampled_from(
    [
        "9" * 4300,
        "9" * 4301,
        "1e999",
        "-1e999",
        "1e-999",
        "9007199254740993",
        "18446744073709551617",
        "-0",
        "NaN",
        "Infinity",
    ]
)
NAME = st.sampled_from(['"a"', '"b"', '"\\u0061"', '""', "a"])


def containers(inner):
    members = st.tuples(NAME, SPACE, SPACE, inner).map(lambda m: f"{m[0]}{m[1]}:{m[2]}{m[3]}")
    joined = lambda parts: st.sampled_from([",", " ,\n", ", "]).map(lambda comma: comma.join(parts))  # noqa: E731 - local
    arrays = st.lists(inner, max_size=3).flatmap(joined).map(lambda text: f"[{text}]")
    objects = st.lists(members, max_size=3).flatmap(joined).map(lambda text: f"{{{text}}}")
    return arrays | objects | inner.map(lambda text: "[" * 40 + text + "]" * 40)


TEXT = st.recursive(STRING | NUMBER | st.sampled_from(["true", "false", "null", "True", ""]), containers, max_leaves=8)


def judged(data):
    """The rules of `wire.read`, told once more with nothing but the standard library; None is a refusal."""

    def members(pairs):
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError("duplicate")
        return dict(pairs)

    def finite(text):
        if math.isinf(number := float(text)) or len(text) > 4300:
            raise ValueError("no double")
        return number

    def never(text):
        raise ValueError(text)

    def level(value):
        inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(level, inner), default=0)

    try:
        value = json.loads(data.decode(), object_pairs_hook=members, parse_float=finite, parse_constant=never)
        json.dumps(value, ensure_ascii=False).encode()  # a lone surrogate has no UTF-8
    except ValueError:
        return None
    return None if level(value) > 64 else [value]


@settings(max_examples=600)
@given(TEXT, SPACE)
def test_exactly_what_the_rules_allow_is_read_and_to_the_same_value(text, space):
    data = (space + text + space).encode()
    expected = judged(data)
    if expected is None:
        with pytest.raises(wire.WireError):
            wire.read(data)
    else:
        assert json.dumps(wire.read(data)) == json.dumps(expected[0])


@pytest.mark.parametrize(
    "data",
    [
        b"", b" ", b"{", b"1 2", b"{} x", b"[1,]", b'{"a":1,}', b"// x\n1", b"'a'", b"nul", b"NaN", b"[Infinity]", b"-Infinity",
        b"1e999", b"[-1e999]", b"01", b"+1", b".5", b"1.", b'"\\ud800"', b'"\\udc00\\ud800"', b'"a\nb"', b'"\xff"', b'"\xc0\x80"',
        b'"\xed\xa0\x80"', b"\xef\xbb\xbf1", b"\xff\xfe1\x00", '"a"'.encode("utf-16"), b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}',
        b'{"a":1,"\\u0061":2}', b"1" * 4301, b"\x00", b"{}\x00",
    ],
)  # fmt: skip
def test_what_is_not_strict_is_refused_without_quoting_it(data):
    with pytest.raises(wire.WireError) as caught:
        wire.read(data)
    assert len(str(caught.value)) < 80


def test_depth_is_exactly_its_limit():
    assert wire.read(b"[" * 64 + b"]" * 64)
    for data in (b"[" * 65 + b"]" * 65, b'{"a":' * 65 + b"1" + b"}" * 65, b"[" * 100_000):
        with pytest.raises(wire.WireError):
            wire.read(data)


@pytest.mark.parametrize("digits", [16, 20, 4300])
def test_integers_are_exact(digits):
    number = int("9" * digits)
    assert wire.read(str(number).encode()) == number
    assert wire.write(number) == str(number).encode()
    assert wire.read(b"9223372036854775807") == 9223372036854775807


def test_other_numbers_keep_their_double_and_one_point_zero_stays_one():
    assert wire.write(wire.read(b"1.0")) == b"1.0"
    assert wire.read(b"1.10") == 1.1
    assert math.copysign(1, wire.read(b"-0.0")) == -1


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, {"a": [math.nan]}, {1}, b"x", dt.date(2026, 1, 1), {1: 2}, "\ud800", object()],
)
def test_what_json_cannot_carry_is_not_written(value):
    with pytest.raises(wire.WireError):
        wire.write(value)


def test_line_separators_of_unicode_are_no_line_feeds():
    assert wire.read(wire.write("a\u2028b\u0085c")) == "a\u2028b\u0085c"


def test_what_holds_itself_ends_instead_of_being_walked_for_ever():
    ring, tree = [], {}
    ring.append(ring)
    tree["left"] = tree["right"] = tree
    for value in (ring, tree):
        with pytest.raises(wire.WireError):
            wire.write(value)
