"""The part of Ottla that runs for every record, in C. Import nothing from here: the core finds it by an entry point."""

__version__ = "0.1.0"
