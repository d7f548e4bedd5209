"""Figures of a ledger file, for a command that shows them."""

from __future__ import annotations

from dataclasses import dataclass

import apsw

from planner.ledger.store import Store


@dataclass(frozen=True, slots=True)
class Stats:
    """Sizes in bytes and numbers of rows."""

    schema: int
    size_bytes: int
    log_bytes: int
    free_bytes: int
    events: int
    conversations: int
    branches: int
    turns: int
    messages: int
    summaries: int
    receipts: int
    parts: int
    sqlite_version: str


def read_stats(store: Store) -> Stats:
    """Return the figures of a ledger as of now."""
    log = store.path.with_name(f"{store.path.name}-wal")
    with store.read("read figures") as connection:

        def count(sql: str) -> int:
            return int(str(connection.execute(sql).get))

        return Stats(
            schema=count("PRAGMA user_version"),
            size_bytes=store.path.stat().st_size,
            log_bytes=log.stat().st_size if log.exists() else 0,
            free_bytes=count("PRAGMA freelist_count") * count("PRAGMA page_size"),
            events=count("SELECT ifnull(max(event), 0) FROM event"),
            conversations=count("SELECT count(*) FROM conversation"),
            branches=count("SELECT count(*) FROM branch"),
            turns=count("SELECT count(*) FROM turn WHERE version = 1"),
            messages=count("SELECT count(*) FROM message WHERE version = 1"),
            summaries=count("SELECT count(*) FROM summary"),
            receipts=count("SELECT count(*) FROM receipt"),
            parts=count("SELECT count(*) FROM part"),
            sqlite_version=apsw.sqlite_lib_version(),
        )
