"""Durations and sizes are read exactly as documented, and nothing else is; where they are used is not tested here."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bascule.settings.quantities import duration, size

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@given(st.integers(1, 999_999_999), st.sampled_from(sorted(UNITS)))
def test_a_whole_number_with_its_unit_is_that_many_seconds(number, unit):
    assert duration(f"{number}{unit}") == number * UNITS[unit]


@pytest.mark.parametrize(("text", "seconds"), [("250ms", 0.25), ("30s", 30), ("2m", 120), ("1h", 3600)])
def test_the_documented_durations_mean_what_they_say(text, seconds):
    assert duration(text) == seconds


@given(st.text(max_size=12) | st.integers() | st.floats() | st.booleans() | st.none() | st.lists(st.text()))
@example("30")
@example("1.5s")
@example("-1s")
@example("+1s")
@example("1 s")
@example(" 1s")
@example("1s\n")
@example("1S")
@example("1d")
@example("1m30s")
@example("0s")
@example("0000000000001s")
@example("\uff15s")
@example("\u0663s")
@example("")
@example("s")
def test_nothing_else_is_a_duration_and_the_refusal_says_what_would_be_right(value):
    if isinstance(value, str) and value.isascii():
        number = value.rstrip("hms")
        if number.isdigit() and len(number) <= 9 and int(number) > 0 and value[len(number) :] in UNITS:
            return
    with pytest.raises(ValueError, match="duration"):
        duration(value)


@given(st.integers(1, 2**40))
def test_a_plain_number_is_a_size_in_bytes(number):
    assert size(number) == number


@pytest.mark.parametrize(("text", "bytes_"), [("1B", 1), ("64KiB", 65_536), ("1MiB", 1_048_576)])
def test_the_documented_sizes_mean_what_they_say(text, bytes_):
    assert size(text) == bytes_


@pytest.mark.parametrize(
    "value", [0, -1, True, 1.5, None, "1", "1MB", "1GiB", "1 KiB", "0KiB", "\uff11KiB", "1kib", "", "KiB", [1]]
)
def test_nothing_else_is_a_size_and_the_refusal_says_what_would_be_right(value):
    with pytest.raises(ValueError, match="KiB"):
        size(value)
