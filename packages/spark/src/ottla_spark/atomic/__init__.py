"""Write each micro-batch to Kafka exactly once and as a whole, in one transaction that all its tasks share."""

from ottla_spark.atomic.driver import BatchWritten
from ottla_spark.atomic.errors import BatchFailedError, BatchRefusedError, TaskRefusedError
from ottla_spark.atomic.sink import AtomicSink, atomically

__all__ = ["AtomicSink", "BatchFailedError", "BatchRefusedError", "BatchWritten", "TaskRefusedError", "atomically"]
