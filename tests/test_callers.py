"""Tokens and `callers.toml`: created, rotated, revoked without a restart; never turned off by a broken file."""

import os
import re

import pytest

from bascule import callers
from bascule.callers import CallersError, CallersFile, new_token
from bascule.enrolment import create_caller, revoke_caller, rotate_caller
from bascule.identity import Caller


@pytest.fixture
def file(tmp_path):
    return tmp_path / "callers.toml"


def make(file, name="owner"):
    return create_caller(file, name, created="2026-11-30")


def test_a_token_has_the_documented_form_and_only_its_digest_is_kept(file):
    token = make(file)
    assert re.fullmatch(r"bsc_owner_[A-Za-z0-9_-]{43}", token)
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert not file.read_bytes().startswith(b"\xef\xbb\xbf")
    assert CallersFile(file).authenticate(token) == Caller("owner")


def test_no_two_tokens_are_alike():
    assert len({new_token("a")[0] for _ in range(100)}) == 100


@pytest.mark.parametrize("change", [str.upper, lambda t: t[:-1], lambda t: t + "x", lambda t: t[:-1] + "é", lambda t: t.replace("owner", "other"),
                                    lambda t: t.replace("bsc_", "bsd_"), lambda t: "", lambda t: "bsc__" + t[-43:]])  # fmt: skip
def test_anything_but_the_token_itself_is_nobody(file, change):
    token = make(file)
    assert CallersFile(file).authenticate(change(token)) is None


def test_a_missing_or_empty_file_lets_nobody_in(file):
    token, _ = new_token("owner")
    assert CallersFile(file).authenticate(token) is None
    file.write_text("")
    assert CallersFile(file).authenticate(token) is None


def test_changes_take_effect_at_the_next_question(file):
    first = make(file)
    known = CallersFile(file)
    second = make(file, "agent")
    assert known.authenticate(second) == Caller("agent")
    rotated = rotate_caller(file, "owner", created="2026-12-01")
    assert known.authenticate(first) is None
    assert known.authenticate(rotated) == Caller("owner")
    revoke_caller(file, "agent")
    assert known.authenticate(second) is None
    assert known.names() == ("owner",)


BROKEN = ["not toml [", "[other]", "[callers.owner]\nsha256 = 1", "[callers.owner]\nsha256 = 'abc'", "[callers.'A b']\nsha256='x'",
          "[callers.owner]\nsha256 = '" + "0" * 64 + "'\nextra = 1", "callers = 3"]  # fmt: skip


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_broke_keeps_the_last_good_callers_and_says_so_once(file, content, caplog):
    token = make(file)
    known = CallersFile(file)
    assert known.authenticate(token)
    file.write_text(content)
    for _ in range(3):
        assert known.authenticate(token) == Caller("owner")
    assert len(caplog.records) == 1
    assert "stay in force" in caplog.text
    os.unlink(file)
    assert known.authenticate(token) == Caller("owner")


@pytest.mark.parametrize("content", BROKEN)
def test_a_file_that_is_broken_is_not_edited(file, content):
    file.write_text(content)
    with pytest.raises(CallersError):
        make(file, "new")
    assert file.read_text() == content


def test_editing_keeps_comments_and_other_callers(file):
    make(file)
    file.write_text("# mine\n" + file.read_text() + "note = 'the gpu agent'  # kept\n")
    make(file, "second")
    rotate_caller(file, "owner", created="2026-12-01")
    assert "# mine" in file.read_text()
    assert "note = 'the gpu agent'  # kept" in file.read_text()


@pytest.mark.parametrize("name", ["", "A", "a_b", "1a", "-a", "a" * 33, "a b", "ä", "../x"])
def test_a_name_that_would_make_a_token_ambiguous_is_refused(file, name):
    with pytest.raises(CallersError):
        make(file, name)


def test_taken_and_unknown_names_are_refused_with_the_command_that_helps(file):
    make(file)
    with pytest.raises(CallersError, match="token rotate owner"):
        make(file)
    for change in (lambda: rotate_caller(file, "x", created=""), lambda: revoke_caller(file, "x")):
        with pytest.raises(CallersError, match="token create x"):
            change()


def test_digests_are_in_no_repr(file):
    token = make(file)
    known = CallersFile(file)
    known.authenticate(token)
    assert callers._digest(token) not in repr(known) + repr(known._known)
