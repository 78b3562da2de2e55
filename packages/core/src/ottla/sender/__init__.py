"""The I/O loop: drains batches, writes produce requests, reads their responses."""

from ottla.sender.sender import Sender

__all__ = ["Sender"]
