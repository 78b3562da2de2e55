"""What plugins print: it must not be part of a command's output, which programs parse."""

from __future__ import annotations

import contextlib
import sys


def printed_to_stderr() -> contextlib.AbstractContextManager[object]:
    """Send what is printed meanwhile to the standard error."""
    return contextlib.redirect_stdout(sys.stderr)
