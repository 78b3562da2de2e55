"""Plugins: the registry of installed ones, the selection by a configuration, and the built-in ones."""
