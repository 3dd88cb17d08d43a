"""The schema of the store: one table of entries in this version, and the number that names the version.

How rows get in and out is left to `sqlite`; migrations between versions begin with the first one that changes a table.
"""

import functools
from typing import Final

SCHEMA_VERSION: Final = 1
"""Kept in SQLite's `user_version`. A file with a higher number is another version's and is refused."""

COLUMNS: Final = (
    "id", "trace", "caller", "operation", "effect", "verdict", "reason", "fingerprint", "idempotency_key", "opened_at",
    "outcome", "category", "cause", "detail", "duration", "closed_at", "delivered", "delivery_cause", "delivered_at",
)  # fmt: skip
"""Columns of `entries`. Times in seconds since the epoch, durations in seconds; NULL where it is not known yet."""

CREATE: Final = """\
CREATE TABLE IF NOT EXISTS entries (
  position INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE, trace TEXT NOT NULL, caller TEXT NOT NULL, operation TEXT NOT NULL, effect TEXT NOT NULL,
  verdict TEXT NOT NULL, reason TEXT NOT NULL, fingerprint TEXT NOT NULL, idempotency_key TEXT, opened_at REAL NOT NULL,
  outcome TEXT, category TEXT, cause TEXT, detail TEXT, duration REAL, closed_at REAL,
  delivered TEXT, delivery_cause TEXT, delivered_at REAL
)"""

_NAMES: Final = ", ".join(COLUMNS)

# Rows travel as one JSON value: a batch is one step of SQLite, and the interpreter lock is given up once, not once a row.
# The names in these statements are the constants above; nothing from outside is in them.
INSERT: Final = (
    f"INSERT OR IGNORE INTO entries ({_NAMES}) SELECT "  # noqa: S608 - constants
    + ", ".join(f"json_extract(value, '$.{column}')" for column in COLUMNS)
    + " FROM json_each(?)"
)

READ: Final = f"SELECT {_NAMES} FROM entries ORDER BY position DESC LIMIT ?"  # noqa: S608 - constants


@functools.lru_cache(maxsize=64)
def update(columns: tuple[str, ...]) -> str:
    """Return the statement that sets `columns` of entries by their id, in one step like `INSERT`.

    Raises:
        ValueError: one of them is no column.
    """
    if not set(columns) <= set(COLUMNS):
        raise ValueError("no such column")
    changes = ", ".join(f"{column} = json_extract(late.value, '$.{column}')" for column in columns)
    return (
        f"UPDATE entries SET {changes} FROM json_each(?) AS late "  # noqa: S608 - constants, as checked
        "WHERE entries.id = json_extract(late.value, '$.id')"
    )
