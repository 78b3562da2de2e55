"""The built-in partitioners. Each module with a hook is a plugin."""
