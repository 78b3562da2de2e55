"""The paths in `allowed.paths` of a provider (KIP-993), and reading small files below them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from ottla.config import allow_lists
from ottla.config.regular_files import content_of
from ottla.errors import ConfigError, printable
from ottla.interfaces import ConfigKey

MAX_BYTES: Final = 1 << 20
"""Maximum size of a file; it has configuration, not data."""


def _paths(raw: Any) -> Sequence[Path]:
    parts = [part.strip() for part in raw.split(",")] if isinstance(raw, str) else [os.fspath(part) for part in raw]
    for part in parts:
        if not os.path.isabs(part):
            raise ValueError(f"{part!r} is not an absolute path")
        if not os.path.exists(part):
            raise ValueError(f"{part!r} does not exist")
    return [Path(os.path.realpath(part)) for part in parts]


ALLOWED_PATHS: Final = ConfigKey(
    name="allowed.paths",
    type=_paths,
    default=None,
    meaning="config.providers.NAME.param.allowed.paths: files and folders, absolute and with commas in between, below "
    "which values are read; none: everywhere",
)


def checked_path(path: str, allowed: Sequence[Path] | None) -> Path:
    """The path with links resolved, if it may be read. Raises ConfigError whether or not the file exists."""
    shown = printable(path)
    if not os.path.isabs(path) or "\0" in path or not _encodable(path):
        raise ConfigError([f"{shown} is not an absolute path"])
    if allow_lists.from_others():
        try:
            real = Path(allow_lists.check_file(path))
        except allow_lists.NotAllowedError as error:
            raise ConfigError([str(error)]) from None
    else:
        real = Path(os.path.realpath(path))
    if allowed is not None and not any(real.is_relative_to(each) for each in allowed):
        raise ConfigError([f"{shown} is outside of allowed.paths"])
    return real


def read_text(path: str, allowed: Sequence[Path] | None) -> str:
    """The content of a file, in UTF-8. Raises ConfigError with the reason; links are resolved before the check."""
    real, shown = checked_path(path, allowed), printable(path)
    try:
        return _read(real).decode()
    except OSError as error:
        raise ConfigError([f"{shown} cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        problem = f"{shown} is not UTF-8"
    raise ConfigError([problem])  # without its context, which has the bytes


def _encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _read(path: Path) -> bytes:
    # The path has no links unless one has appeared since; it may be a pipe, so opening it must not wait.
    return content_of(allow_lists.open_without_links(str(path)), max_bytes=MAX_BYTES)
