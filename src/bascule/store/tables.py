"""The schema of the store: one table of entries in this version, and the number that names the version.

How rows get in and out is left to `sqlite`; migrations between versions begin with the first one that changes a table.
"""

from typing import Final

from sqlalchemy import Column, Float, MetaData, String, Table

SCHEMA_VERSION: Final = 1
"""Kept in SQLite's `user_version`. A file with a higher number is another version's and is refused."""

metadata: Final = MetaData()

entries: Final = Table(
    "entries",
    metadata,
    Column("id", String, primary_key=True),
    Column("trace", String, nullable=False),
    Column("caller", String, nullable=False),
    Column("operation", String, nullable=False),
    Column("effect", String, nullable=False),
    Column("verdict", String, nullable=False),
    Column("reason", String, nullable=False),
    Column("fingerprint", String, nullable=False),
    Column("idempotency_key", String),
    Column("opened_at", Float, nullable=False, index=True),
    Column("outcome", String),
    Column("category", String),
    Column("cause", String),
    Column("detail", String),
    Column("duration", Float),
    Column("closed_at", Float),
    Column("delivered", String),
    Column("delivery_cause", String),
    Column("delivered_at", Float),
)
