"""The keywords of `Producer` that type checkers know have the settings of all our plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120


def test_the_keywords_are_the_settings_of_the_core_and_of_our_plugins() -> None:
    command = [sys.executable, str(ROOT / "tools/keywords.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    assert (checked.returncode, checked.stdout) == (0, "")
