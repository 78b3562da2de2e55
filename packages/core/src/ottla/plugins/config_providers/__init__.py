"""Built-in config providers: `file`, `directory` and `env`, as in Java."""
