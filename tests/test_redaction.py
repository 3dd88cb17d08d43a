"""No secret that goes in comes out; text without secrets comes out unchanged."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.redaction import MASK, MIN_SECRET, mask

SECRETS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="<redacted>"), min_size=MIN_SECRET, max_size=20
)


@given(st.text(), SECRETS, st.text())
def test_a_known_secret_never_comes_out(before, secret, after):
    assert secret not in mask(before + secret + after, [secret]).replace(MASK, "")


@given(st.text(st.characters(categories=["Ll", "Zs"])))
def test_text_without_secrets_is_unchanged(text):
    assert mask(text, ["SECRET-VALUE"]) == text


@pytest.mark.parametrize(
    "secret",
    ["bsc_owner_" + "x" * 43, "AKIA" + "ABCD1234EFGH5678", "ghp_" + "a" * 36, "sk-" + "a" * 24, "hf_" + "b" * 24],
)
def test_well_known_shapes_are_masked_wherever_they_stand(secret):
    assert mask(f'token="{secret}"; rest') == f'token="{MASK}"; rest'


@pytest.mark.parametrize(
    "text", ["api_key_env", "max_tokens", "token_count", "sk-short", "bsc_owner_short", "AKIAshort", ""]
)
def test_names_and_short_things_are_not_secrets(text):
    assert mask(text, ["", "1", "true"]) == text


def test_a_secret_inside_a_longer_one_leaves_no_tail():
    assert mask("abcdef-ghijkl", ["abcdef", "abcdef-ghijkl"]) == MASK


def test_it_is_linear_in_the_text():
    began = time.perf_counter()
    mask("sk-" * 300_000 + "bsc_a_" * 100_000, ["x" * 30])
    assert time.perf_counter() - began < 5
