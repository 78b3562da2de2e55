"""Queued records: batches by partition, the memory they hold, and the results they get."""

from ottla.accumulator.accumulator import RecordAccumulator

__all__ = ["RecordAccumulator"]
