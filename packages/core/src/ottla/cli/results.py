"""The printed result of a command whose exit code says what became of records."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

import click


def print_result(text: str) -> None:
    """Print the result; to the standard error if the standard output takes none, such as a full disk or an ended pipe.

    The exit code stays that of the records: a program that repeats the command would send acknowledged ones again.
    """
    if sys.stdout is None:  # the program was started without one: `>&-`
        click.echo(f"the standard output is closed; the result:\n{text}", err=True)
        return
    try:
        click.echo(text)
    except OSError as error:
        discard(sys.stdout)
        try:
            click.echo(f"the standard output cannot be written ({error.strerror}); the result:\n{text}", err=True)
        except OSError:
            discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """What is buffered is written to nowhere: at its end Python would write it again, fail, and end with 120."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
