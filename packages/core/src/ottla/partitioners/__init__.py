"""The built-in partitioners."""
