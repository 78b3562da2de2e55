"""Errors of batches that are written as a whole or not at all."""

from __future__ import annotations

from ottla import OttlaError


class BatchRefusedError(OttlaError):
    """The batch was not begun: the write is not allowed, or it is not known whether the batch is in Kafka."""


class BatchFailedError(OttlaError):
    """Every attempt at the batch failed. None of its records is visible; a restart of the query tries again."""


class TaskRefusedError(OttlaError):
    """A task does not write, because another attempt may have written. The whole batch is aborted and run again."""
