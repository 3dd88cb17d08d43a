"""`init` and `token` make and change the files of one machine; real processes, nothing listens."""

import json
import os
import subprocess
import sys
import tomllib

import pytest

from bascule.callers import CallersFile
from bascule.settings import load


def bascule(*arguments, env, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "bascule", *arguments],
        capture_output=True, text=True, timeout=60, env=env, cwd=cwd, check=False,
    )  # fmt: skip


@pytest.fixture
def env(tmp_path):
    return {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "BASCULE_STATE": str(tmp_path / "state")}


@pytest.fixture
def machine(tmp_path, env):
    """A folder that `init` has filled."""
    folder = tmp_path / "config"
    done = bascule("init", "--dir", str(folder), env=env)
    assert done.returncode == 0, done.stderr
    return folder


def option(machine):
    return ["--config", str(machine / "bascule.toml")]


def test_init_writes_settings_that_work_and_allow_only_looking(machine):
    settings = load(machine / "bascule.toml", environ={})
    assert settings.policy.allow == ["device.*", "system.which"]
    assert (settings.controller.host, settings.controller.port) == ("127.0.0.1", 8765)
    assert settings.operations == {}


def test_the_commented_example_of_init_works_once_it_is_uncommented(machine):
    path = machine / "bascule.toml"
    text = path.read_text()
    head, _, example = text.partition('# [operations."service.restart"]')
    example = '[operations."service.restart"]' + example.replace("\n# ", "\n")
    path.write_text(head + example)
    assert load(path, environ={}).operations["service.restart"].timeout == 120


def test_init_keeps_the_token_from_everybody_else_and_only_its_digest_for_the_controller(machine):
    token = (machine / "credentials" / "owner").read_text().strip()
    modes = {path: path.stat().st_mode & 0o777 for path in (machine, *machine.rglob("*"))}
    for path, mode in modes.items():
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert CallersFile(machine / "callers.toml").authenticate(token).name == "owner"
    assert token not in (machine / "callers.toml").read_text()
    assert list(tomllib.loads((machine / "callers.toml").read_text())["callers"]) == ["owner"]


def test_init_without_a_folder_writes_where_everything_else_looks(env):
    done = bascule("init", env=env)
    assert done.returncode == 0
    folder = f"{env['HOME']}/.config/bascule"
    assert os.path.exists(f"{folder}/bascule.toml")
    assert "serve\n" in done.stdout
    assert "--config" not in done.stdout


def test_init_prints_the_next_two_steps_with_their_real_paths(tmp_path, env):
    done = bascule("init", "--dir", str(tmp_path / "with space"), env=env)
    steps = [line.strip() for line in done.stdout.splitlines() if line.startswith("  ")]
    assert len(steps) == 2
    for step in steps:
        assert f"--config '{tmp_path}/with space/bascule.toml'" in step
    first = subprocess.run(
        ["sh", "-c", steps[0].replace(" serve ", " token create laptop ")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert first.returncode == 0, first.stderr


@pytest.mark.parametrize("existing", ["bascule.toml", "callers.toml", "credentials/owner"])
def test_init_never_overwrites_and_names_what_is_there(tmp_path, env, existing):
    file = tmp_path / "config" / existing
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    done = bascule("init", "--dir", str(tmp_path / "config"), env=env)
    assert done.returncode == 2
    assert str(file) in done.stderr
    assert file.read_text() == "mine"
    assert len([path for path in (tmp_path / "config").rglob("*") if path.is_file()]) == 1


def test_init_leaves_the_modes_of_a_folder_that_was_there(tmp_path, env):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o755)
    assert bascule("init", "--dir", str(folder), env=env).returncode == 0
    assert folder.stat().st_mode & 0o777 == 0o755
    assert (folder / "credentials").stat().st_mode & 0o777 == 0o700


def test_init_refuses_a_folder_in_which_others_could_swap_the_settings(tmp_path, env):
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    done = bascule("init", "--dir", str(folder), env=env)
    assert done.returncode == 2
    assert f"chmod go-w {folder}" in done.stderr
    assert list(folder.iterdir()) == []


def test_init_that_fails_half_way_leaves_nothing_that_blocks_the_next_one(tmp_path, env):
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "credentials").write_text("a file where a folder must be")
    done = bascule("init", "--dir", str(folder), env=env)
    assert done.returncode == 2
    assert "--dir writes elsewhere" in done.stderr
    assert [path.name for path in folder.iterdir()] == ["credentials"]


def test_a_new_callers_token_is_alone_on_stdout_and_works_at_once(machine, env):
    done = bascule("token", "create", "laptop", "--note", "the blue one", *option(machine), env=env)
    assert done.returncode == 0
    token = done.stdout.removesuffix("\n")
    assert "\n" not in token
    assert token not in done.stderr
    assert "shown this once" in done.stderr
    assert CallersFile(machine / "callers.toml").authenticate(token).name == "laptop"
    assert not (machine / "credentials" / "laptop").exists()


def test_a_rotated_token_replaces_the_old_one_and_the_copy_of_this_machine(machine, env):
    own = machine / "credentials" / "owner"
    old = own.read_text().strip()
    done = bascule("token", "rotate", "owner", *option(machine), env=env)
    new = done.stdout.strip()
    callers = CallersFile(machine / "callers.toml")
    assert done.returncode == 0
    assert callers.authenticate(old) is None
    assert callers.authenticate(new).name == "owner"
    assert own.read_text() == f"{new}\n"
    assert own.stat().st_mode & 0o777 == 0o600
    assert str(own) in done.stderr


def test_a_revoked_caller_is_out_and_its_dead_token_is_gone(machine, env):
    own = machine / "credentials" / "owner"
    old = own.read_text().strip()
    done = bascule("token", "revoke", "owner", *option(machine), env=env)
    assert done.returncode == 0
    assert done.stdout == ""
    assert CallersFile(machine / "callers.toml").authenticate(old) is None
    assert not own.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "owner"], "exists"),
        (["create", "Not_A_Name"], "lower-case letters"),
        (["create", "../x"], "lower-case letters"),
        (["rotate", "nobody"], "there is no caller nobody"),
        (["revoke", "nobody"], "there is no caller nobody"),
    ],
)
def test_what_cannot_be_done_to_a_caller_changes_nothing(machine, env, arguments, words):
    before = (machine / "callers.toml").read_bytes()
    done = bascule("token", *arguments, *option(machine), env=env)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""
    assert (machine / "callers.toml").read_bytes() == before


def test_comments_in_the_callers_file_survive_a_new_caller(machine, env):
    file = machine / "callers.toml"
    file.write_text(file.read_text() + "# the rest are guests\n")
    bascule("token", "create", "guest", *option(machine), env=env)
    assert "# the rest are guests" in file.read_text()


def test_the_doctor_names_the_first_hop_that_is_broken_on_this_machine(machine, env):
    def walked():
        done = bascule("doctor", "--json", *option(machine), env=env)
        findings = json.loads(done.stdout)
        return done.returncode, findings[-1]["hop"], findings[-1]["words"]

    path, callers, token = machine / "bascule.toml", machine / "callers.toml", machine / "credentials" / "owner"
    good = path.read_text()
    path.write_text(good + '[operations.x]\ndescription = "d"\ncommand = ["{p}"]\neffect = "read"\n')
    code, hop, words = walked()
    assert (code, hop) == (2, "operations")
    assert "the program must be written out" in words
    path.write_text(good.replace('host = "127.0.0.1"', 'host = "0.0.0.0"'))
    code, hop, words = walked()
    assert (code, hop) == (2, "bind")
    assert "--public-bind" in words
    path.write_text(good.replace("port = 8765", "port = 0"))
    code, hop, words = walked()
    assert (code, hop) == (2, "options")
    assert "--url" in words
    path.write_text(good.replace("port = 8765", "port = 1"))
    token.chmod(0o644)
    code, hop, words = walked()
    assert (code, hop) == (2, "token")
    assert f"chmod 600 {token}" in words
    token.chmod(0o600)
    path.chmod(0o666)
    code, hop, words = walked()
    assert (code, hop) == (2, "modes")
    assert f"chmod go-w {path}" in words
    path.chmod(0o600)
    code, hop, words = walked()
    assert (code, hop) == (4, "port")
    assert "bascule serve" in words
    callers.write_text("not toml")
    code, hop, words = walked()
    assert (code, hop) == (2, "callers")
    assert str(callers) in words


def test_the_doctor_tells_of_an_entry_that_allows_nothing(machine, env):
    path = machine / "bascule.toml"
    path.write_text(path.read_text().replace('"system.which"', '"system.wich"'))
    done = bascule("doctor", *option(machine), env=env)
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if "system.wich" in text)
    assert f"{path}:{line}: 'system.wich' allows nothing" in done.stdout
