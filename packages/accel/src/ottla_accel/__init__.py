"""Ottla's hot paths in C. Nothing is imported from here: an entry point makes the core find it."""

__version__ = "0.1.0"
