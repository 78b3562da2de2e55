"""The I/O loop: drains batches, writes produce requests, reads their responses."""
