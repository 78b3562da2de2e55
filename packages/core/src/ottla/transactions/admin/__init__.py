"""Blocking requests about transactions, from the caller's thread: list, describe, complete, abort.

`ottla.transactions` exports the public names; import them from there.
"""
