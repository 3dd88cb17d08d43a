"""Every process that came from a command is ended with it, however it tried to leave; a parent's death is noticed."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bascule.platform import files, processes
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
