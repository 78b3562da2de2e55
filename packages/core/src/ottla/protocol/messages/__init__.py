"""The declarations of the messages, one module for each API."""
