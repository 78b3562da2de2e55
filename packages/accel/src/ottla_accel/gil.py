"""The check that threads take turns: the compiled code appends records without its own lock, under the GIL."""

from __future__ import annotations

import sys


def check_gil() -> None:
    """Raise ImportError if the interpreter runs without the GIL. Runs before anything compiled is imported.

    Importing compiled code would enable the GIL for the whole program, or, with `PYTHON_GIL=0`, lose records.
    """
    enabled = getattr(sys, "_is_gil_enabled", None)  # missing before Python 3.13, where there is always a GIL
    if enabled is not None and not enabled():
        raise ImportError(
            "ottla-accel needs the GIL, and this Python runs without it, so the core encodes records in Python; "
            "PYTHON_GIL=1 enables the GIL, record.encoder=python avoids this message"
        )
