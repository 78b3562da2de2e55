"""What the brokers that could be asked know of transactions, and which could not be asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.errors import OttlaError
from ottla.errors.robust_logger import robust_logger

logger = robust_logger(__name__)

T = TypeVar("T")


class FoundTransactions(list[T]):
    """What was found, a list. `missing` has the brokers that could not be asked, by id, each with its error.

    Transactional ids that they coordinate are not in the list, so an empty one says nothing about these.
    """

    def __init__(self, found: Iterable[T] = (), missing: Mapping[int, OttlaError] | None = None) -> None:
        super().__init__(found)
        self.missing: Mapping[int, OttlaError] = dict(missing or {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()}, missing={self.missing!r})"


def log_missing(found: FoundTransactions[T]) -> FoundTransactions[T]:
    """Warn of the brokers that could not be asked; return what was found."""
    for node, error in found.missing.items():
        logger.warning(
            "broker %d could not be asked: %s; the transactional ids that it coordinates are missing", node, error
        )
    return found


def not_asked(node: int, error: OttlaError) -> str:
    """What is missing because of one broker, and why, as in the log."""
    return f"broker {node} could not be asked: {error}; the transactional ids that it coordinates are missing"
