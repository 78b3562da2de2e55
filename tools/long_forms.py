"""Whether this run takes the long forms of tests: `OTTLA_SOAK=1`, as in `tox run -e full`."""

from __future__ import annotations

import os
from typing import Final

import pytest

LONG: Final = os.environ.get("OTTLA_SOAK", "") not in ("", "0")


def only_long(why: str) -> pytest.MarkDecorator:
    """Skip a test in the short form, because of *why*: the time or the parts that it takes."""
    return pytest.mark.skipif(not LONG, reason=f"{why}: only with OTTLA_SOAK=1")
