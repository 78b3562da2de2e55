"""Redirection of what plugins print, because programs parse the standard output of a command."""

from __future__ import annotations

import contextlib
import sys


def printed_to_stderr() -> contextlib.AbstractContextManager[object]:
    """Redirect the standard output to the standard error for the `with` block."""
    return contextlib.redirect_stdout(sys.stderr)
