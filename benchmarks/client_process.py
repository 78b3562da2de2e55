"""A client's process, which runs one work after the other: it gets each as a line, and answers with a line of JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import click


class ClientProcess:
    """A process of this *command*; errors call it by *name*. Without *quiet*, it writes to this process's stderr."""

    def __init__(self, name: str, command: Sequence[str], *, quiet: bool = False) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
        )

    def run(self, work: str) -> Any:
        """Have it run one work, given as a line; returns its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(work + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise click.ClickException(f"{self._name} did not end its work {work}; run it by hand to see why")
        return json.loads(answer)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        with self._process:
            pass
