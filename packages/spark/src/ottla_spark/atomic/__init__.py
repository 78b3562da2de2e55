"""Micro-batches that are in Kafka once, each as a whole: one transaction for each, shared by all its tasks."""

from ottla_spark.atomic.driver import BatchWritten
from ottla_spark.atomic.errors import BatchFailedError, BatchRefusedError, TaskRefusedError
from ottla_spark.atomic.sink import AtomicSink, atomically

__all__ = ["AtomicSink", "BatchFailedError", "BatchRefusedError", "BatchWritten", "TaskRefusedError", "atomically"]
