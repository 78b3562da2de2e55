"""The producer that programs use, and how its parts are built."""

from ottla.producer.producer import Producer

__all__ = ["Producer"]
