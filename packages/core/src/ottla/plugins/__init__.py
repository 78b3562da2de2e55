"""Plugins: the registry of those that are installed, the choice of those that are used, and the built-in ones."""
