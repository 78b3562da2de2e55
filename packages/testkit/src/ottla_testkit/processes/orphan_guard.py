"""What ends a process whose owner has died without doing so: killed, or by SIGTERM, for which Python does nothing.

A shell waits for a line on a pipe that only the owner, and what it forks, holds. The line lets it go; the end of the
pipe without one, however the owner died, means that nobody else is left to end the process.
"""

from __future__ import annotations

import subprocess
from typing import Final

_SCRIPT: Final = 'read -r _ || kill -9 "$1"'


class OrphanGuard:
    """Guards one process, from now until it is let go."""

    def __init__(self, pid: int) -> None:
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, "sh", str(pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what a terminal sends to the owner is for the owner
        )

    def let_go(self) -> None:
        """The process has ended, or is to live on."""
        self._shell.communicate(b"\n")
