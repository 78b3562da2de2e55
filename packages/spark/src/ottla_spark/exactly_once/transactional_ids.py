"""Transactional ids of one worker process: as few as its tasks need, never one that may still be recorded.

A task's transaction stays open after the task, so the next task of the same batch needs another id. A newer lease means
that all transactions of older leases have ended, so that their ids are free again.
"""

from __future__ import annotations

from ottla_spark.exactly_once.ledger.lease import Lease


class IdPool:
    """The ids of one name in one process; `process` is a string unique to the process."""

    def __init__(self, *, name: str, process: str) -> None:
        self._name = name
        self._process = process
        self._used: dict[str, Lease] = {}

    def take(self, lease: Lease) -> str:
        """Return an id for a transaction under this lease; it then belongs to the caller."""
        for known, before in self._used.items():
            if lease.newer_than(before):
                self._used[known] = lease
                return known
        fresh = task_id(self._name, process=self._process, number=len(self._used))
        self._used[fresh] = lease
        return fresh


def task_id(name: str, *, process: str, number: int) -> str:
    """Return the transactional id with this number of a process's tasks."""
    return f"{name}/{process}/{number}"


def is_task_id(name: str, transactional_id: str) -> bool:
    """Return whether an id belongs to one of this name's tasks, and not to a longer name with the same beginning."""
    start, rest = f"{name}/", transactional_id
    if not rest.startswith(start):
        return False
    process, slash, number = rest[len(start) :].partition("/")
    return bool(slash) and len(process) == _PROCESS_DIGITS and set(process) <= _HEX and number.isdecimal()


_PROCESS_DIGITS = 32
_HEX = frozenset("0123456789abcdef")
