"""The entry point. It works without the libraries of the command line, and then names the extra to install."""

from __future__ import annotations

import sys
from typing import Final

WRONG_USAGE: Final = 2

_LIBRARIES: Final = ("click", "rich")


def main() -> None:
    """Run the command line; ends the program with its exit code."""
    try:
        from ottla.cli.commands import ottla
    except ModuleNotFoundError as missing:
        library = str(missing.name).partition(".")[0]
        if library not in _LIBRARIES:
            raise
        print(f'the command line needs {library}; try: pip install "ottla[cli]"', file=sys.stderr)
        sys.exit(WRONG_USAGE)
    ottla.main(prog_name="ottla")
