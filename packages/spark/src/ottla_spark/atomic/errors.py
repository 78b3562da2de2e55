"""What can go wrong with a batch that is all or nothing."""

from __future__ import annotations

from ottla import OttlaError


class BatchRefusedError(OttlaError):
    """The batch was not begun, for it cannot be told whether it is in Kafka, or must not be written like this."""


class BatchFailedError(OttlaError):
    """No attempt at the batch came through. Nothing of it is visible; the query's restart tries again."""


class TaskRefusedError(OttlaError):
    """A task does not write, because another attempt may have; the whole batch is aborted and run again."""
