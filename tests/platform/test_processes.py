"""Every process that came from a command is ended with it, however it tried to leave; a parent's death is noticed."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.platform import files, proc, processes
from bascule.platform.parent import parent_gone
from bascule.platform.processes import Command
from kit.until import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets us see processes that left their group"),
]

DAEMON = """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, str(os.getpid()).encode())
        time.sleep(600)
    os._exit(0)
os.wait()
print(int(os.read(read, 20)), flush=True)
"""
STAY = "import time; time.sleep(600)\n"
DEAF = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)\n"
)


@pytest.fixture(autouse=True)
def _subreaper():
    processes.become_subreaper()


def start(source):
    return Command([sys.executable, "-c", source], program=sys.executable, env={"PATH": os.environ["PATH"]}, cwd=None)


async def line_of(command):
    out, err = command.pipes
    err.close()
    line = await asyncio.to_thread(out.readline)
    out.close()
    return line.decode().strip()


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def test_a_daemon_that_left_group_and_session_is_ended_with_its_living_command():
    command = start(DAEMON + STAY)
    daemon = int(await line_of(command))
    assert alive(daemon)
    assert await command.end(5)
    assert not alive(daemon)


async def test_a_daemon_is_found_after_its_command_ended_by_itself():
    command = start(DAEMON)
    daemon = int(await line_of(command))
    assert await command.wait() == 0
    assert alive(daemon)
    assert await command.end(5)
    assert not alive(daemon)
    with pytest.raises(ProcessLookupError):
        os.kill(daemon, 0)


async def test_who_does_not_hear_term_is_killed_after_the_grace():
    command = start(DEAF)
    assert await line_of(command) == "deaf"
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert await command.end(0.2)
    assert 0.2 <= loop.time() - began < 5
    assert await command.wait() == -signal.SIGKILL


async def test_a_daemon_that_ignores_term_is_killed_as_well():
    deaf = DAEMON.replace(
        "time.sleep(600)",
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(write, b' '); time.sleep(600)",
    )
    command = start(deaf + STAY)
    daemon = int(await line_of(command))
    await command.end(0.2)
    await until(lambda: not alive(daemon))


async def test_a_command_that_ended_with_nothing_left_has_nothing_to_end():
    command = start("pass")
    for pipe in command.pipes:
        pipe.close()
    assert await command.wait() == 0
    assert await command.end(5) is False


async def test_commands_beside_each_other_end_only_their_own():
    staying, going = start(DAEMON + STAY), start(DAEMON)
    kept, ended = int(await line_of(staying)), int(await line_of(going))
    await going.wait()
    await going.end(5)
    assert not alive(ended)
    assert alive(kept), "the daemon of a command that lives is not an orphan"
    await staying.end(5)
    assert not alive(kept)


async def test_two_commands_that_have_both_ended_end_only_their_own_daemons():
    one, other = start(DAEMON), start(DAEMON)
    kept, ended = int(await line_of(one)), int(await line_of(other))
    await one.wait()
    await other.wait()
    await other.end(5)
    assert not alive(ended)
    assert alive(kept), "its own command ends it"
    await one.end(5)
    assert not alive(kept)


async def test_a_process_that_comes_to_us_from_elsewhere_is_nobodys_daemon():
    command = start("pass")
    # A session of its own, younger than the command: what a plug-in starts, or a container's first process adopts.
    foreign = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", STAY], start_new_session=True)
    try:
        for pipe in command.pipes:
            pipe.close()
        await command.wait()
        await command.end(1)
        assert foreign.poll() is None
    finally:
        foreign.kill()
        foreign.wait()


async def test_a_command_that_lets_its_daemons_go_is_followed_all_the_same():
    let_go = "import ctypes; ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)\n"
    command = start(let_go + DAEMON + STAY)
    daemon = int(await line_of(command))
    assert proc.one(daemon).parent == os.getpid()
    await command.end(5)
    assert not alive(daemon)


async def test_where_limits_carry_no_mark_an_orphan_is_known_by_its_session(monkeypatch):
    monkeypatch.setattr(processes, "_new_mark", lambda: None)
    command = start(DAEMON)
    daemon = int(await line_of(command))
    await command.wait()
    assert await command.end(5)
    assert not alive(daemon)


async def test_a_command_whose_limit_cannot_be_set_is_known_by_its_session(monkeypatch):
    monkeypatch.setattr(processes, "_setrlimit", lambda *_: -1)
    command = start(DAEMON)
    daemon = int(await line_of(command))
    await command.wait()
    assert await command.end(5)
    assert not alive(daemon)


async def test_no_zombie_of_a_family_stays_with_us():
    tree = (
        "import os, time\n"
        "def grow(levels):\n"
        "    for side in (0, 1):\n"
        "        if os.fork() == 0:\n"
        "            if side:\n                os.setsid()\n"
        "            if levels:\n                grow(levels - 1)\n"
        "            time.sleep(600)\n"
        "grow(3)\nprint('grown', flush=True)\n"
    )
    commands = [start(tree) for _ in range(4)]
    for command in commands:
        assert await line_of(command) == "grown"
        await command.wait()
    await asyncio.gather(*(command.end(5) for command in commands))
    assert [row for row in proc.table().values() if row.parent == os.getpid() and row.dead] == []


async def test_while_descriptors_are_short_nobody_is_taken_for_dead():
    command = start(DAEMON + STAY)
    daemon = int(await line_of(command))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    os.close(lowest)
    ending = asyncio.ensure_future(command.end(5))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            proc.table()
        await until(lambda: command._popen.returncode is not None)
        assert not ending.done(), "the command is gone, of its daemon nothing is known"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert await ending
    assert not alive(daemon)


async def test_without_a_process_table_the_whole_group_is_ended(monkeypatch, tmp_path):
    monkeypatch.setattr(proc, "_PROC", tmp_path / "nothing")
    member = "import subprocess, sys; deaf = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE); deaf.stdout.readline(); print(deaf.pid, flush=True)\n"
    for more in (STAY, ""):  # the command is ended, and has ended by itself
        command = Command(
            [sys.executable, "-c", member + more, DEAF],
            program=sys.executable,
            env={"PATH": os.environ["PATH"]},
            cwd=None,
        )
        deaf = int(await line_of(command))
        assert alive(deaf)
        if not more:
            await command.wait()
        assert await command.end(0.2)
        assert not alive(deaf)


async def test_a_controller_that_is_killed_takes_its_commands_along():
    source = (
        "import os, sys, time\nfrom bascule.platform.processes import Command\n"
        "command = Command([sys.executable, '-c', sys.argv[1]], program=sys.executable, env={}, cwd=None)\n"
        "print(command._popen.pid, command.pipes[0].readline(), flush=True)\ntime.sleep(600)\n"
    )
    controller = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", source, "print('up', flush=True)\n" + STAY], stdout=subprocess.PIPE
    )
    pid = int((await asyncio.to_thread(controller.stdout.readline)).split()[0])
    assert alive(pid)
    controller.kill()
    controller.wait()
    controller.stdout.close()
    await until(lambda: not alive(pid))


async def test_processes_of_the_controller_itself_are_nobodys_orphans():
    own = await asyncio.to_thread(subprocess.Popen, [sys.executable, "-c", STAY])
    try:
        command = start("pass")
        for pipe in command.pipes:
            pipe.close()
        await command.wait()
        await command.end(1)
        assert own.poll() is None
    finally:
        own.kill()
        own.wait()


async def test_a_child_gets_exactly_its_environment_and_no_input():
    command = Command(
        [sys.executable, "-c", "import os, sys; print(sorted(os.environ), sys.stdin.read())"],
        program=sys.executable,
        env={"ONE": "1", "LC_CTYPE": "C.UTF-8"},
        cwd=None,
    )
    assert await line_of(command) == "['LC_CTYPE', 'ONE']"
    await command.wait()
    await command.end(1)


async def test_a_parents_death_is_noticed(tmp_path):
    source = (
        "import asyncio, os, sys\nfrom bascule.platform.parent import parent_gone\n"
        "async def main():\n    watch = asyncio.ensure_future(parent_gone())\n    await asyncio.sleep(0)\n"
        "    print('watching', os.getpid(), flush=True)\n    await watch\n    open(sys.argv[1], 'w').close()\nasyncio.run(main())\n"
    )
    middle = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]], stdout=subprocess.PIPE)\n"
        "print(child.stdout.readline().decode(), flush=True)\ntime.sleep(600)\n"
    )
    mark = tmp_path / "noticed"
    parent = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", middle, source, str(mark)], stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    assert "watching" in (await asyncio.to_thread(parent.stdout.readline)).decode()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    await until(mark.exists)


async def test_while_the_parent_lives_nothing_is_noticed():
    watch = asyncio.ensure_future(parent_gone())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await asyncio.shield(watch)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


# -- files --


def test_private_files_are_the_owners_alone_and_replaced_in_one_step(tmp_path):
    folder = tmp_path / "a" / "b"
    files.make_private_dir(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    file = folder / "secret"
    files.write_private(file, b"one")
    files.write_private(file, b"two")
    assert file.read_bytes() == b"two"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["secret"]
    assert files.check_private(file) is None


def test_what_is_missing_above_a_private_folder_is_private_too(tmp_path):
    files.make_private_dir(tmp_path / "a" / "b")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o700


def test_the_command_that_mends_a_file_can_be_pasted(tmp_path):
    file = tmp_path / "my file; x"
    file.write_text("x")
    file.chmod(0o644)
    assert (files.check_private(file) or "").endswith(f"chmod 600 '{file}'")


def test_a_folder_that_is_open_is_tightened_and_an_open_file_is_told_with_its_remedy(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    files.make_private_dir(tmp_path / "open")
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
    file = tmp_path / "file"
    file.write_text("x")
    file.chmod(0o644)
    assert f"chmod 600 {file}" in (files.check_private(file) or "")


def test_a_folder_that_others_use_is_never_closed_to_them(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    (shared / "theirs").touch()
    with pytest.raises(PermissionError, match=f"chmod 700 {shared}"):
        files.make_private_dir(shared)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        files.write_private(tmp_path / "missing" / "file", b"new")
    assert file.read_bytes() == b"old"
