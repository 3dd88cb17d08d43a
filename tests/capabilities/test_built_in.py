"""What the machine says of itself, where programs are, and capabilities from other distributions."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.capabilities import plugins
from bascule.capabilities.device import Device
from bascule.capabilities.which import Which
from bascule.node.errors import InvalidOperationError
from bascule.node.registry import Registry
from bascule.node.schema import Schema
from bascule.node.terms import Call
from kit.doubles import OWNER, KeptBack

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "bascule-plugin-uptime"


async def execute(capability, name, arguments=None):
    operation = next(o for o in capability.operations() if o.name == name)
    answer = await capability.execute(Call("1", OWNER, operation, arguments or {}), KeptBack())
    assert not Schema(operation.result).violations(answer.value)
    json.dumps(answer.value, allow_nan=False)
    return answer.value


async def test_device_info_is_this_machine_and_fits_its_schema():
    value = await execute(Device(), "device.info")
    assert value["hostname"] == os.uname().nodename
    assert value["cpuCount"] == os.cpu_count()
    assert value["memoryBytes"] > 0


async def test_device_status_is_finite_and_fits_its_schema():
    value = await execute(Device(), "device.status")
    assert 0 <= value["memory"]["percent"] <= 100
    assert value["uptimeSeconds"] > 0


async def test_which_finds_what_is_on_the_path_and_says_what_is_missing(tmp_path):
    tool = tmp_path / "a-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    (tmp_path / "not-executable").write_text("")
    value = await execute(
        Which({"PATH": str(tmp_path)}), "system.which", {"bins": ["a-tool", "not-executable", "nothing"]}
    )
    assert value == {"bins": {"a-tool": str(tool)}, "missing": ["not-executable", "nothing"]}


async def test_which_answers_with_absolute_paths_even_where_the_path_is_not(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    tool = tmp_path / "bin" / "a-tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert (await execute(Which({"PATH": "bin"}), "system.which", {"bins": ["a-tool"]}))["bins"] == {
        "a-tool": str(tool)
    }


async def test_without_a_path_which_looks_where_commands_are_looked_for():
    assert (await execute(Which({}), "system.which", {"bins": ["sh"]}))["missing"] == []


@pytest.mark.parametrize("bins", [[], ["/bin/sh"], ["../x"], [""], ["a\0b"], ["x"] * 65, "sh", [1], ["a" * 256]])
def test_which_takes_bare_names_only(bins):
    registry = Registry()
    registry.add(Which({}))
    assert registry.find("system.which").schema.violations({"bins": bins})


def test_no_plug_in_is_loaded_unless_it_is_named():
    assert plugins.load([]) == []
    with pytest.raises(InvalidOperationError, match="is not installed"):
        plugins.load(["nowhere"])


def test_a_plug_in_that_two_distributions_offer_is_refused_naming_both(tmp_path):
    installed(tmp_path, "one_plugin", "make = None", "same = one_plugin:make")
    site = installed(tmp_path, "other_plugin", "make = None", "same = other_plugin:make")
    done = load_in_a_process(site, "same")
    assert done.returncode != 0
    assert "plug-in same is offered by one_plugin and other_plugin; uninstall all but one" in done.stderr


def installed(tmp_path, module, source, entry):
    """A distribution as an installer would leave it: a module and its metadata."""
    (tmp_path / f"{module}.py").write_text(source)
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\n{entry}\n")
    return tmp_path


def load_in_a_process(site, name):
    code = f"from bascule.capabilities import plugins\nfor c in plugins.load([{name!r}]):\n print([o.name for o in c.operations()])"
    environment = os.environ | {"PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_the_example_outside_the_package_is_found_by_its_entry_point_and_works(tmp_path):
    source = (EXAMPLE / "src" / "bascule_plugin_uptime.py").read_text()
    line = next(line for line in (EXAMPLE / "pyproject.toml").read_text().splitlines() if line.startswith("uptime ="))
    site = installed(tmp_path, "bascule_plugin_uptime", source, line.replace('"', ""))
    done = load_in_a_process(site, "uptime")
    assert (done.returncode, done.stdout.strip()) == (0, "['uptime.get']"), done.stderr


HALF = """
class make:
    category, can_handle, execute, plan = "half", None, None, None
    def operations(self):
        {}
"""


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise RuntimeError('at import')", "at import"),
        ("x = 1", "AttributeError"),
        ("make = lambda: object()", "gives no capability"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (HALF.format("return ['x']"), "its operations are not"),
        (HALF.format("raise RuntimeError('asked')"), "asked"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_distribution_and_cause(tmp_path, source, words):
    site = installed(tmp_path, "broken_plugin", source, "broken = broken_plugin:make")
    done = load_in_a_process(site, "broken")
    assert done.returncode != 0
    assert "plug-in broken of broken_plugin" in done.stderr
    assert words in done.stderr
