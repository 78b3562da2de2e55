"""Reading files that settings name: regular files only, of bounded size, without waiting.

A setting may name a pipe, which blocks the thread that opens it, or a device, which has no end. So no other code opens
these files, and libraries get a copy of what was read.
"""

from __future__ import annotations

import os
import stat
from typing import Final

_NOT_WAITING: Final = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


class FileTooLargeError(OSError):
    """A file has more bytes than are read."""


def read_regular_file(path: str, *, max_bytes: int) -> bytes:
    """The content of a file. Raises OSError, also for other files and larger ones; ValueError for an impossible name.

    No list of allowed files is asked: `ottla.config.allow_lists.read_file` does that.
    """
    return content_of(os.open(path, os.O_RDONLY | _NOT_WAITING), max_bytes=max_bytes)


def content_of(descriptor: int, *, max_bytes: int) -> bytes:
    """The content of an open file, which is closed. Raises OSError, also for other files and larger ones."""
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1) or b""
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        del content  # the frames of an error hold no content
        size = f"{max_bytes >> 20} MB" if max_bytes % (1 << 20) == 0 else f"{max_bytes} bytes"
        raise FileTooLargeError(None, f"it is larger than {size}")
    return content


def reason_of(error: Exception) -> str:
    """Why a file cannot be read, without its name; of an error of `read_regular_file`."""
    return str((isinstance(error, OSError) and error.strerror) or error)
