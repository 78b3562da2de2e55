"""Error messages for a process that cannot open more files or sockets."""

from __future__ import annotations

import errno
import os
from typing import Final

REMEDY: Final = "close unused files and sockets, or raise the limit of open files (ulimit -n, LimitNOFILE of a service)"

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, getattr(errno, "WSAEMFILE", errno.EMFILE)})
"""The error numbers of files, and that of sockets on Windows."""


def has_too_many_files(error: BaseException) -> bool:
    """Return whether an error means that too many files are open, in this process or on the whole machine."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


def files_remedy(error: BaseException) -> str:
    """The remedy to append to an error's message; empty for other errors."""
    return f"; {REMEDY}" if has_too_many_files(error) else ""


def none_left() -> OSError | None:
    """Open a file as a test; return the error if too many are open, else None."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if has_too_many_files(error) else None
    return None
