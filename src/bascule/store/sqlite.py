"""The record in a SQLite file: one writer thread, batches, full synchronisation before an effect.

What an entry holds and when it must be durable is left to the node; other processes may read the file meanwhile.
"""

import asyncio
import logging
import os
import sqlite3
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bascule import wire
from bascule.node.errors import StoreUnavailableError
from bascule.node.record import Closing, Delivery, Durability, Opening
from bascule.store.tables import COLUMNS, CREATE, INSERT, READ, SCHEMA_VERSION, update

SOON: Final = 0.04
"""Seconds a queued row may wait for company: committed within 50 ms, as the architecture promises."""

MAX_QUEUED: Final = 10_000
"""Rows waiting for the writer: about a second of the fastest traffic; beyond it calls are refused, not forgotten."""

LOCK_PATIENCE: Final = 2.0
"""Seconds to wait for another process's lock before saying that the store is unavailable."""

_log: Final = logging.getLogger("bascule.store")


@dataclass(slots=True)
class _Row:
    """What is known of one entry and not yet written."""

    values: dict[str, Any]
    fresh: bool
    """Whether the entry is not in the file yet."""


@dataclass(slots=True)
class _Waiter:
    """A caller that may not go on before its row is durable."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[None]

    def settle(self, error: Exception | None) -> None:
        def deliver() -> None:
            if self.done.done():
                return
            if error is None:
                self.done.set_result(None)
            else:
                self.done.set_exception(error)

        try:
            self.loop.call_soon_threadsafe(deliver)
        except RuntimeError:
            _log.debug("the loop that waited for a write is gone")


@dataclass(slots=True)
class _Batch:
    rows: dict[str, _Row] = field(default_factory=dict)
    waiters: list[_Waiter] = field(default_factory=list)


class SqliteRecord:
    """`record.RecordStore` over a file. `open_file` makes one; `aclose` writes what is queued and lets go."""

    def __init__(self, path: Path) -> None:
        """Open or create `path` and check that it can be written.

        Raises:
            StoreUnavailableError: not a usable file, another version's, locked, full or read-only.
        """
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()
        self._batch = _Batch()
        self._wake = threading.Event()
        self._hurry = threading.Event()
        self._closed = False
        self._broken: str | None = None
        try:
            self._connection = _opened(path)
        except (sqlite3.Error, OSError) as error:
            raise _unavailable(path, error) from None
        self._writer = threading.Thread(target=self._write_forever, name="bascule-record", daemon=True)
        self._writer.start()

    def __repr__(self) -> str:
        return f"<SqliteRecord {self._path}: {self._broken or 'writing'}>"

    async def open(self, opening: Opening, durability: Durability) -> None:
        """Queue or write the first half of an entry (`RecordStore.open`)."""
        values = {
            "id": opening.id,
            "trace": opening.trace,
            "caller": opening.caller,
            "operation": opening.operation,
            "effect": opening.effect.value,
            "verdict": opening.verdict,
            "reason": opening.reason,
            "fingerprint": opening.fingerprint,
            "idempotency_key": opening.key,
            "opened_at": opening.opened_at,
        }
        await self._put(opening.id, values, fresh=True, durability=durability)

    async def close(self, closing: Closing, durability: Durability) -> None:
        """Queue or write the second half of an entry (`RecordStore.close`)."""
        values = {
            "outcome": closing.outcome,
            "category": closing.category.value,
            "cause": closing.cause.value if closing.cause else None,
            "detail": closing.detail,
            "duration": closing.duration,
            "closed_at": closing.closed_at,
        }
        await self._put(closing.id, values, fresh=False, durability=durability)

    def deliver(self, delivery: Delivery) -> None:
        """Queue the delivery (`RecordStore.deliver`)."""
        values = {
            "delivered": "yes" if delivery.delivered else "no",
            "delivery_cause": delivery.cause,
            "delivered_at": delivery.at,
        }
        with self._lock:
            self._merge(delivery.id, values, fresh=False)
        self._wake.set()

    async def ready(self) -> bool:
        """Whether a write is kept now: tried, not guessed."""
        if self._closed:
            return False
        if self._broken is None:
            return True
        try:
            await self._wait_for_commit()
        except StoreUnavailableError:
            return False
        return True

    async def aclose(self) -> None:
        """Write what is queued, end the writer, let go of the file."""
        if self._closed:
            return
        self._closed = True
        self._wake.set()
        self._hurry.set()
        await asyncio.to_thread(self._writer.join)
        self._let_go()

    async def _put(self, entry_id: str, values: dict[str, Any], *, fresh: bool, durability: Durability) -> None:
        waiter = None
        with self._lock:
            if self._closed:
                raise StoreUnavailableError("The record is closed", detail=str(self._path))
            if self._broken is not None and durability is Durability.SOON:
                # Reads are not let through on hope: while the file fails, each call asks it anew and waits.
                durability = Durability.BEFORE_EFFECT
            if len(self._batch.rows) >= MAX_QUEUED:
                raise StoreUnavailableError("The record is behind", detail=f"{MAX_QUEUED} rows are queued")
            self._merge(entry_id, values, fresh=fresh)
            if durability is Durability.BEFORE_EFFECT:
                waiter = self._waiter()
        self._wake.set()
        if waiter is not None:
            self._hurry.set()
            await waiter.done

    async def _wait_for_commit(self) -> None:
        with self._lock:
            waiter = self._waiter()
        self._wake.set()
        self._hurry.set()
        await waiter.done

    def _waiter(self) -> _Waiter:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future())
        self._batch.waiters.append(waiter)
        return waiter

    def _merge(self, entry_id: str, values: dict[str, Any], *, fresh: bool) -> None:
        row = self._batch.rows.get(entry_id)
        if row is None:
            self._batch.rows[entry_id] = _Row(values, fresh)
        else:
            row.values.update(values)

    # -- the writer's thread --

    def _write_forever(self) -> None:
        while True:
            self._wake.wait()
            if not self._closed:
                self._hurry.wait(SOON)
            self._hurry.clear()
            self._wake.clear()
            with self._lock:
                batch, self._batch = self._batch, _Batch()
            self._write(batch)
            if self._closed and not self._batch.rows and not self._batch.waiters:
                return

    def _write(self, batch: _Batch) -> None:
        if not batch.rows and not batch.waiters:
            return
        try:
            if self._connection is None:
                self._connection = _opened(self._path)
            with self._connection:
                _store(self._connection, batch.rows)
            error: StoreUnavailableError | None = None
        except (sqlite3.Error, OSError) as cause:
            error = _unavailable(self._path, cause)
            self._let_go()  # the next batch opens the file anew: it may be another one by then
        if error is not None and self._broken is None:
            _log.error("%s (%s)", error, error.detail)
        elif error is None and self._broken is not None:
            _log.warning("the record at %s is written again", self._path)
        self._broken = None if error is None else error.detail
        if error is not None:
            self._keep(batch.rows)
        for waiter in batch.waiters:
            waiter.settle(error)

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _keep(self, rows: dict[str, _Row]) -> None:
        """Take back what could not be written: an entry of something that ran is not forgotten while there is room."""
        with self._lock:
            for entry_id, row in rows.items():
                newer = self._batch.rows.get(entry_id)
                if newer is not None:
                    row.values.update(newer.values)
                elif len(self._batch.rows) >= MAX_QUEUED:
                    continue
                self._batch.rows[entry_id] = row


def _store(connection: sqlite3.Connection, rows: dict[str, _Row]) -> None:
    fresh = [row.values for row in rows.values() if row.fresh]
    if fresh:
        connection.execute(INSERT, (wire.write(fresh).decode(),))
    for columns, values in _late(rows).items():
        connection.execute(update(columns), (wire.write(values).decode(),))
    if not rows:
        # Readiness asks for a real write: SQLite takes no lock before one.
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _late(rows: dict[str, _Row]) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Return what is to be added to entries that are in the file already, by the columns it sets."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for entry_id, row in rows.items():
        if not row.fresh:
            groups.setdefault(tuple(row.values), []).append({"id": entry_id, **row.values})
    return groups


def _opened(path: Path) -> sqlite3.Connection:
    """Open or make the file, and make sure that it can be written.

    Raises:
        sqlite3.Error, OSError: it cannot, or another version wrote it.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made by us before SQLite does, so that it never exists with wider modes; its -wal and -shm take the same.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
    connection = sqlite3.connect(path, timeout=LOCK_PATIENCE, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _check_version(*connection.execute("PRAGMA user_version").fetchone())
        with connection:
            connection.execute(CREATE)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
    except (sqlite3.Error, OSError):
        connection.close()
        raise
    return connection


def _check_version(version: int) -> None:
    if version > SCHEMA_VERSION:
        raise OSError(f"it was written by a newer bascule (schema {version}, this one knows {SCHEMA_VERSION})")


def _unavailable(path: Path, error: Exception) -> StoreUnavailableError:
    return StoreUnavailableError("The record cannot be written", detail=f"{path}: {error}")


def read_entries(path: Path, *, limit: int) -> list[dict[str, Any]]:
    """Return the newest `limit` entries of the record at `path`, oldest first, each as a plain mapping.

    Raises:
        StoreUnavailableError: the file cannot be read.
    """
    if not path.exists():
        raise StoreUnavailableError("There is no record", detail=str(path))
    connection = sqlite3.connect(path, timeout=LOCK_PATIENCE)
    try:
        rows = connection.execute(READ, (limit,)).fetchall()
    except sqlite3.Error as error:
        raise _unavailable(path, error) from None
    finally:
        connection.close()
    return [dict(zip(COLUMNS, row, strict=True)) for row in reversed(rows)]
