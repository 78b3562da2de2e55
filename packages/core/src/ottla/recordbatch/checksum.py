"""CRC-32C for batches of format v2, by ottla-accel if it is installed, else by the package crc32c.

It is no plugin and no setting, because the result is the same. ottla-accel is preferred here so that crc32c, which has
another license (LGPL), is not even imported.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Final, Protocol

from ottla.interfaces import Buffer

COMPILED: Final = "ottla_accel.crc32c"


class Checksum(Protocol):
    """The checksum of bytes, or of bytes that continue data with the checksum *crc*."""

    def __call__(self, data: Buffer, crc: int = 0, /) -> int: ...


def find_checksum() -> Checksum:
    """The implementation to use. Raises ImportError when neither package is installed."""
    try:
        compiled: Checksum = import_module(COMPILED).crc32c
    except ImportError:  # not installed, or an older version
        return _of_crc32c()
    return compiled


def _of_crc32c() -> Checksum:
    from crc32c import crc32c, hardware_based

    # Keep the GIL for the 70 µs that a megabyte takes with the processor's own instruction. Another thread would have
    # it for 5 ms: 5 % less time for records at full speed in pure Python. -1 is crc32c's own choice.
    return partial(crc32c, gil_release_mode=0 if hardware_based else -1)


crc32c: Final = find_checksum()
