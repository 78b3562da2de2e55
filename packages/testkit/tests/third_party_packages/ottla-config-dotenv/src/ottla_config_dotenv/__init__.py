"""The configuration provider for `config.providers=dotenv`."""

from ottla_config_dotenv.plugin import DotenvProvider

__all__ = ["DotenvProvider"]
