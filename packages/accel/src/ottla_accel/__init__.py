"""Ottla's hot paths in C. Import nothing from here: the core finds it by an entry point."""

__version__ = "0.1.0"
