"""Providers of configuration values that Ottla brings: `file`, `directory` and `env`, as Java has them."""
