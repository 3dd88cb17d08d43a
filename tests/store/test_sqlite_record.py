"""The record in a file: durable before an effect, batched otherwise, refused by name when it cannot be kept."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

from bascule.node.errors import StoreUnavailableError
from bascule.node.record import Closing, Delivery, Durability, Opening
from bascule.node.terms import Category, Cause, Effect
from bascule.store import sqlite
from bascule.store.sqlite import SqliteRecord, read_entries
from kit.until import until

pytestmark = pytest.mark.anyio

FIRST, SOON = Durability.BEFORE_EFFECT, Durability.SOON


def opening(entry="e1", **more):
    values = {
        "trace": "t", "caller": "owner", "operation": "echo", "effect": Effect.READ, "verdict": "allow",
        "reason": "allowed by *", "fingerprint": "f" * 64, "key": None, "opened_at": 1.0,
    }  # fmt: skip
    return Opening(id=entry, **{**values, **more})


def closing(entry="e1"):
    return Closing(entry, "completed", Category.NONE, Cause.COMPLETED, "", 0.5, 1.5)


@pytest.fixture
async def record(tmp_path):
    made = SqliteRecord(tmp_path / "state" / "r.sqlite3")
    yield made
    await made.aclose()
    assert not [thread for thread in threading.enumerate() if thread.name == "bascule-record"]


async def test_an_entry_is_opened_closed_and_delivered_and_reads_back_whole(record, tmp_path):
    await record.open(opening(key="k1"), SOON)
    await record.close(closing(), SOON)
    record.deliver(Delivery("e1", True, "", 2.0))
    await record.aclose()
    (entry,) = read_entries(tmp_path / "state" / "r.sqlite3", limit=10)
    assert (entry["id"], entry["outcome"], entry["category"], entry["delivered"]) == ("e1", "completed", "none", "yes")
    assert (entry["idempotency_key"], entry["duration"]) == ("k1", 0.5)


async def test_what_must_be_durable_is_in_the_file_when_the_call_returns(record, tmp_path):
    await record.open(opening(), FIRST)
    assert [e["id"] for e in read_entries(tmp_path / "state" / "r.sqlite3", limit=10)] == ["e1"]
    await record.close(closing(), FIRST)
    assert read_entries(tmp_path / "state" / "r.sqlite3", limit=10)[0]["outcome"] == "completed"


async def test_what_is_queued_is_in_the_file_soon(record, tmp_path):
    await record.open(opening(), SOON)
    await until(lambda: read_entries(tmp_path / "state" / "r.sqlite3", limit=10), within=2)


async def test_writes_that_arrive_together_share_a_commit(record):
    commits = []

    def counting(connection, rows):
        commits.append(len(rows))
        return store(connection, rows)

    store, sqlite._store = sqlite._store, counting
    try:
        await asyncio.gather(*(record.open(opening(f"e{n}"), FIRST) for n in range(50)))
    finally:
        sqlite._store = store
    assert sum(commits) == 50
    assert len(commits) < 25


async def test_file_and_folder_are_the_owners_alone(record, tmp_path):
    await record.open(opening(), FIRST)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    for file in (tmp_path / "state").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


async def test_a_killed_process_keeps_what_was_acknowledged(tmp_path):
    source = (
        "import asyncio, sys\nsys.path.insert(0, sys.argv[2])\nfrom pathlib import Path\n"
        "from bascule.store.sqlite import SqliteRecord\n"
        "from bascule.node.record import Durability, Opening\nfrom bascule.node.terms import Effect\n"
        "async def main():\n    r = SqliteRecord(Path(sys.argv[1]))\n"
        "    await r.open(Opening('kept','t','o','op',Effect.WRITE,'allow','r','f',None,1.0), Durability.BEFORE_EFFECT)\n"
        "    print('acknowledged', flush=True)\n    await asyncio.sleep(600)\nasyncio.run(main())\n"
    )
    path = tmp_path / "r.sqlite3"
    process = await asyncio.to_thread(
        subprocess.Popen, [sys.executable, "-c", source, str(path), os.getcwd()], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == b"acknowledged\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert [e["id"] for e in read_entries(path, limit=10)] == ["kept"]
    record = SqliteRecord(path)
    await record.open(opening("next"), FIRST)
    await record.aclose()


async def test_a_locked_file_is_refused_by_name_and_service_returns_by_itself(record, tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "LOCK_PATIENCE", 0.05)
    other = SqliteRecord(tmp_path / "state" / "r.sqlite3")
    blocker = sqlite3.connect(tmp_path / "state" / "r.sqlite3", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError) as caught:
        await other.open(opening("x"), FIRST)
    assert "locked" in caught.value.detail
    assert str(tmp_path) not in str(caught.value), "the peer's words hold no path"
    assert not await other.ready()
    with pytest.raises(StoreUnavailableError):
        await other.open(opening("y"), SOON)
    blocker.execute("ROLLBACK")
    blocker.close()
    assert await other.ready()
    await other.open(opening("z"), FIRST)
    await other.aclose()


@contextmanager
def small_disk(path, options="size=256k"):
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"this machine lets nobody mount a tmpfs: {mounted.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


async def test_a_full_disk_is_refused_by_name_and_service_returns_when_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        record = SqliteRecord(disk / "r.sqlite3")
        ballast = disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(b"x" * 1_000_000)
        with pytest.raises(StoreUnavailableError):
            for number in range(200):
                await record.open(opening(f"e{number}", reason="x" * 4000), FIRST)
        assert not await record.ready()
        ballast.unlink()
        assert await record.ready()
        await record.open(opening("room"), FIRST)
        await record.aclose()


async def test_a_read_only_disk_is_refused_in_words_at_the_start(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(StoreUnavailableError):
            SqliteRecord(disk / "r.sqlite3")


@pytest.mark.parametrize(
    "content", [b"this is no database, it only has the name of one" * 100, b"SQLite format 3\x00" + b"\xff" * 4000]
)
async def test_a_file_that_is_no_database_is_refused_in_words(tmp_path, content):
    (tmp_path / "r.sqlite3").write_bytes(content)
    with pytest.raises(StoreUnavailableError):
        SqliteRecord(tmp_path / "r.sqlite3")
    assert (tmp_path / "r.sqlite3").read_bytes() == content


async def test_a_folder_in_its_place_and_a_missing_record_are_refused_in_words(tmp_path):
    (tmp_path / "r.sqlite3").mkdir()
    with pytest.raises(StoreUnavailableError):
        SqliteRecord(tmp_path / "r.sqlite3")
    with pytest.raises(StoreUnavailableError):
        read_entries(tmp_path / "none.sqlite3", limit=1)


async def test_a_newer_file_is_refused_by_name_and_left_alone(tmp_path):
    path = tmp_path / "r.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnavailableError) as caught:
        SqliteRecord(path)
    assert "newer bascule" in caught.value.detail


async def test_a_closed_record_takes_nothing_and_says_it_is_not_ready(tmp_path):
    record = SqliteRecord(tmp_path / "r.sqlite3")
    await record.aclose()
    await record.aclose()
    assert not await record.ready()
    with pytest.raises(StoreUnavailableError):
        await record.open(opening(), SOON)


async def test_a_queue_that_is_full_refuses_instead_of_forgetting(record, monkeypatch):
    monkeypatch.setattr(sqlite, "MAX_QUEUED", 3)
    record._lock.acquire()
    record._batch.rows.update({str(n): sqlite._Row({"id": str(n)}, fresh=False) for n in range(3)})
    record._lock.release()
    with pytest.raises(StoreUnavailableError):
        for number in range(50):
            await record.open(opening(f"f{number}"), SOON)
            record._batch.rows.update({f"x{n}": sqlite._Row({"id": f"x{n}"}, fresh=False) for n in range(3)})
