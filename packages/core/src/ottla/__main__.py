"""The command `ottla`, run as `python -m ottla`."""

from ottla.cli import main

main()
