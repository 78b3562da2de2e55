"""A guard that ends a process whose owner was killed: by SIGKILL, or by SIGTERM, which Python does not handle.

The guard is a shell that waits for a line on a pipe that only the owner and its forks hold. After a line, it leaves the
process alone. If the pipe ends without a line, the owner has died, and the shell kills the process.
"""

from __future__ import annotations

import subprocess
from typing import Final

_SCRIPT: Final = 'read -r _ || kill -9 "$1"'


class OrphanGuard:
    """Kills one process if this one ends before `release`."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's signals are for the owner only
        )

    def release(self) -> None:
        """Stop watching the process: it has ended, or may continue after this one."""
        self._shell.communicate(b"\n")
