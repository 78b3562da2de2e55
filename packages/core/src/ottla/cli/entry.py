"""The entry point. It works without the libraries of the command line, and then names the extra to install."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

WRONG_USAGE: Final = 2

_LIBRARIES: Final = ("click", "rich")


def main() -> NoReturn:
    """Run the command line; ends the program with its exit code."""
    try:
        _run()
    except KeyboardInterrupt as interrupt:
        from ottla.cli.interruption import exit_code_of

        print("interrupted", file=sys.stderr)
        sys.exit(exit_code_of(interrupt))


def _run() -> NoReturn:
    try:
        import click

        from ottla.cli.commands import ottla
    except ModuleNotFoundError as missing:
        library = str(missing.name).partition(".")[0]
        if library not in _LIBRARIES:
            raise
        print(f'the command line needs {library}; try: pip install "ottla[cli]"', file=sys.stderr)
        sys.exit(WRONG_USAGE)
    try:
        sys.exit(ottla.main(prog_name="ottla", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort as aborted:
        interrupt = aborted.__cause__ or aborted.__context__  # click 8.1 has no cause
        raise interrupt if isinstance(interrupt, KeyboardInterrupt) else KeyboardInterrupt from None
