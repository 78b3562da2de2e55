"""The plugin: its key, and a provider of values from files with lines NAME=value."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ottla.config.allow_lists import NotAllowedError, check_file, from_others
from ottla.errors import ConfigError, printable
from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, ConfigProvider, PluginConfig, PluginContext

from ottla_config_dotenv.parser import MalformedFileError, parse

ottla_conformance = "ottla_config_dotenv.conformance:DotenvConformance"

FILE: Final = "file"
_MAX_BYTES: Final = 1024 * 1024


class DotenvProvider:
    """Read the file at each call, so that a changed password is used at the next login. For any thread."""

    def __init__(self, file: str | None, *, logger: logging.Logger) -> None:
        self._file = file
        self._logger = logger

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        """Return the values of those *keys* that the file *path* has; without a path, the file of the parameter."""
        file = path or self._file
        if file is None:
            raise ConfigError(
                [
                    "a reference to a dotenv file has no path: write ${dotenv:/path/of/the/file:NAME}, or set the"
                    " parameter 'file' of the provider"
                ]
            )
        if not os.path.isabs(file):
            raise ConfigError([f"the path {printable(file)!r} of a dotenv file must be absolute"])
        values = _values_or_problem(file)
        if isinstance(values, str):
            # Raised here, so that no context and no traceback of the error has the content of the file.
            raise ConfigError([f"the dotenv file {printable(file)} {values}"])
        found = {key: values[key] for key in keys if key in values}
        # Never a value: it may be a secret. No client id: providers are made before the configuration is read.
        self._logger.debug("%d value(s) of %s were read", len(found), printable(file))
        return found


def _values_or_problem(file: str) -> dict[str, str] | str:
    try:
        # The author of options, of a Spark job for instance, may not have the rights of this process.
        with Path(check_file(file) if from_others() else file).open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            return f"has more than {_MAX_BYTES} bytes"
        return parse(content.decode("utf-8-sig"))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except NotAllowedError as error:
        return f"may not be read: {error}"
    except MalformedFileError as error:
        return f"is malformed: {error}"
    except UnicodeDecodeError:
        return "is not in UTF-8"
    except ValueError:
        return "cannot be read: its path is malformed"


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The key for the file, which users write as `config.providers.dotenv.param.file`."""
    return [
        ConfigKey(
            name=FILE,
            type=_absolute,
            default=None,
            meaning="the file for references without a path, ${dotenv:NAME}, with its absolute path",
        )
    ]


@hookimpl
def ottla_config_provider(config: PluginConfig, context: PluginContext) -> ConfigProvider:
    """The provider named `dotenv`."""
    return DotenvProvider(config[FILE], logger=context.logger)


def _absolute(written: Any) -> str:
    path = os.fspath(written)
    if not isinstance(path, str) or not os.path.isabs(path):
        raise ValueError("write an absolute path, such as /run/secrets/kafka.env")
    return path
