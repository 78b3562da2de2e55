"""Settings of a write that name a file or a URL: the cluster's operator has to allow them.

Options can come from users of SQL, Spark Connect or notebooks, who may not read the files that the cluster's machines
read, nor reach the same hosts. The operator allows files and URLs in the environment of the driver
(`OTTLA_ALLOWED_FILES`, `OTTLA_ALLOWED_URLS`), which no option changes. Files that Spark itself distributed need no
permission; they have bare names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.config.allow_lists import check_file, check_url
from ottla_spark.options.shipped_files import LOCATIONS, is_bare_name

PLACE: Final = "the environment of Spark's driver, and for executors as spark.executorEnv.{variable}"

_FILE: Final = re.compile(r"(.*[._])?(location|keytab|files?|paths?|dir|directory|folder)")
"""Endings of the keys that name files, in our plugins and probably in others."""

_URL: Final = re.compile(r"(.*[._])?ur[il]s?")
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
"""The authenticator plugin checks this setting's URL: it may also be a `file:` URL."""


def names_a_file(key: str) -> bool:
    """Return whether the value of the producer's setting *key* is treated as a file name."""
    return _FILE.fullmatch(key) is not None


def names_a_url(key: str) -> bool:
    """Return whether the value of the producer's setting *key* is treated as a URL."""
    return _URL.fullmatch(key) is not None


def problems_of_names(settings: Mapping[str, object]) -> dict[str, str]:
    """Return problems of files and URLs that are not allowed, by key. Call it inside `options_of_others`."""
    problems = {}
    for key, value in settings.items():
        try:
            _check(key, str(value))
        except ValueError as error:
            problems[key] = f"{key}: {error}"
    return problems


def _check(key: str, value: str) -> None:
    if not value or key == _TOKEN_URL:
        return
    if names_a_file(key) and not (key in LOCATIONS and is_bare_name(value)):
        check_file(value)
    if names_a_url(key):
        check_url(value)
