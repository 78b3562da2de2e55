"""A process without free file descriptors: errors say what happened, and what helps."""

from __future__ import annotations

import errno
import importlib.metadata
import os
from typing import NoReturn

import pytest

from ottla import PluginError
from ottla.plugins.registry import installed


def test_without_file_descriptors_no_plugin_is_reported_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: object) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(installed, "_last", None)
    monkeypatch.setattr(importlib.metadata, "distributions", lambda: [])
    monkeypatch.setattr(os, "open", full)

    with pytest.raises(PluginError, match=r"Too many open files.*ulimit -n"):
        installed.announced()
