"""The public producer, and the construction of its parts."""

from ottla.producer.producer import Producer

__all__ = ["Producer"]
