"""The depth of the calling thread's stack, for code that a RecursionError must not leave half done."""

from __future__ import annotations

import sys


def is_deep() -> bool:
    """Return whether the calls on this thread use a quarter of the recursion limit or more.

    The check counts frames. Before Python 3.12, calls in C count towards the limit, too, and have no frames; so it
    leaves them three quarters of the limit.
    """
    try:
        sys._getframe(sys.getrecursionlimit() // 4)
    except ValueError:  # there are fewer frames
        return False
    return True
