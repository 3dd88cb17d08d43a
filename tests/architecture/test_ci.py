"""What CI runs says what it did, stops with the first failing code, and lets no skipped journey pass. Its make is a stand-in."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = ["make check", "make test", "make demo", "make clients"]


@pytest.fixture
def ci(tmp_path):
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")

    def run(**recipes):
        lines = [f"{target}:\n\t@{recipes.get(target, 'true')}\n" for target in ("check", "test", "demo", "clients")]
        (tmp_path / "Makefile").write_text("".join(lines))
        environment = {"PATH": os.environ["PATH"], "FORCE_COLOR": "1"}
        return subprocess.run([tmp_path / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)

    return run


def test_each_step_is_run_in_order_and_timed_on_one_line(ci):
    done = ci()
    assert done.returncode == 0
    timed = [
        match for line in done.stdout.splitlines() if (match := re.fullmatch(r"ci: (make \w+) .*\b\d+ s\b.*", line))
    ]
    assert [match[1] for match in timed] == STEPS


@pytest.mark.parametrize("step", ["check", "test", "demo", "clients"])
def test_a_step_that_fails_fails_the_run_and_the_others_are_still_run(ci, step):
    done = ci(**{step: "exit 1"})
    assert done.returncode != 0
    assert len(re.findall(r"^ci: make", done.stdout, re.MULTILINE)) == 4


def test_no_tests_collected_is_a_failure(ci):
    assert ci(test="exit 5").returncode != 0


@pytest.mark.parametrize("colour", ["", "\\033[33m"])
@pytest.mark.parametrize("place", ["journeys", "clients", "contract", "docs"])
def test_a_skipped_journey_is_said_last_and_fails(ci, place, colour):
    reset = "\\033[0m" if colour else ""
    done = ci(test=f"printf '{colour}SKIPPED{reset} [1] tests/{place}/test_trip.py:12: no ssh here\\n'")
    assert done.returncode != 0
    assert f"tests/{place}/test_trip.py" in done.stdout.splitlines()[-1]


def test_a_skip_elsewhere_is_no_failure(ci):
    assert ci(test="printf 'SKIPPED [1] tests/platform/test_processes.py:9: not Linux\\n'").returncode == 0


def test_nothing_waits_for_input_and_it_is_run_from_any_folder(ci, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    assert ci(demo='cat; test "$$CI" = true').returncode == 0
