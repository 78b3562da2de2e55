"""Blocking requests about transactions, from the caller's thread: list, describe, complete, abort."""
