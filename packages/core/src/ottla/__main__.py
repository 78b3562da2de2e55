"""`python -m ottla` is the command `ottla`."""

from ottla.cli import main

main()
