"""The library of tables for a suite: without it, the tests of tables are skipped, each with the reason."""

from __future__ import annotations

from typing import Any

import pytest


def pyarrow() -> Any:
    """Return the module; skip the test if it is not installed."""
    return pytest.importorskip("pyarrow", reason="tables need pyarrow, which is not installed")
