"""The command line, `ottla`. Its libraries come with the extra `ottla[cli]`."""

from ottla.cli.entry import main

__all__ = ["main"]
