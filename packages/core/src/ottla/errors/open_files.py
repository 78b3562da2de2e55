"""What to say when the system gives this process no more files or sockets."""

from __future__ import annotations

import errno
import os
from typing import Final

REMEDY: Final = "close what is not needed, or raise the limit of open files (ulimit -n, LimitNOFILE of a service)"

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE})


def exhausted(error: BaseException) -> bool:
    """Whether an error says that too many files are open, by this process or on the whole machine."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


def remedy(error: BaseException) -> str:
    """What helps against an error, to be put behind it; empty where it is about something else."""
    return f"; {REMEDY}" if exhausted(error) else ""


def none_left() -> OSError | None:
    """The error that opening a file ends in, where that is because too many are open."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error if exhausted(error) else None
    return None
