"""The command line: `ottla doctor`, `ottla plugins`. Its libraries come with the extra `ottla[cli]`."""

from ottla.cli.entry import main

__all__ = ["main"]
