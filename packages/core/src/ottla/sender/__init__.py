"""The I/O loop, which drains batches, writes Produce requests and reads their responses."""

from ottla.sender.sender import Sender

__all__ = ["Sender"]
