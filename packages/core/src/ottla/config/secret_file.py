"""A file for a private key, which OpenSSL reads only from a file, and which should never be on a disk."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager


def secret_file(content: bytes) -> AbstractContextManager[str]:
    """Return a path with *content* for the duration of the block: in memory, where Linux supports that.

    Elsewhere it is a temporary file that only this user can read, removed at the end of the block.
    """
    if sys.platform == "linux" and os.path.isdir("/proc/self/fd"):
        return _in_memory(content)
    return _on_disk(content)


if sys.platform == "linux":

    @contextlib.contextmanager
    def _in_memory(content: bytes) -> Iterator[str]:
        with open(os.memfd_create("ottla"), "wb") as file:
            file.write(content)
            file.flush()
            del content  # an error's traceback includes this frame
            yield f"/proc/self/fd/{file.fileno()}"


@contextlib.contextmanager
def _on_disk(content: bytes) -> Iterator[str]:
    descriptor, path = tempfile.mkstemp(prefix="ottla-")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        del content  # an error's traceback includes this frame
        yield path
    finally:
        os.unlink(path)
