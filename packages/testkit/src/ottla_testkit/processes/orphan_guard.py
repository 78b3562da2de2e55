"""A guard that ends a process whose owner has died: killed, or by SIGTERM, for which Python does nothing.

A shell waits for a line on a pipe that only the owner and its forks hold. After the line, it leaves the process alone.
If the pipe ends without one, the owner has died, and the shell ends the process.
"""

from __future__ import annotations

import subprocess
from typing import Final

_SCRIPT: Final = 'read -r _ || kill -9 "$1"'


class OrphanGuard:
    """Guard one process, from now until `let_go`."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's signals are for the owner only
        )

    def let_go(self) -> None:
        """Stop watching the process: it has ended, or may continue after this one."""
        self._shell.communicate(b"\n")
