"""The schema of the store: one table of entries in this version, and the number that names the version.

How rows get in and out is left to `sqlite`; migrations between versions begin with the first one that changes a table.
"""

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

INSERT: Final = (  # the names are the constants above: nothing from outside is in it
    f"INSERT OR IGNORE INTO entries ({', '.join(COLUMNS)}) "
    f"SELECT {', '.join(f'''json_extract(value, '$.{column}')''' for column in COLUMNS)} FROM json_each(?)"
)
"""All rows of a batch in one step: the interpreter lock is given up once, not once per row."""

READ: Final = f"SELECT {', '.join(COLUMNS)} FROM entries ORDER BY position DESC LIMIT ?"  # noqa: S608 - as above
