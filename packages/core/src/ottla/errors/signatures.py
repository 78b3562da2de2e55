"""Signatures of the program's functions and plugins, for checks of how they are called.

Their annotations are not evaluated. Since Python 3.14 (PEP 649) they may name what only a type checker imports, and
`inspect.signature` alone would raise NameError.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any


def signature_of(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return a function's signature, its annotations as text. Raises TypeError or ValueError if Python knows none."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.STRING)
    return inspect.signature(function, follow_wrapped=follow_wrapped)
