"""The I/O loop, which drains batches, writes Produce requests and reads their responses."""
