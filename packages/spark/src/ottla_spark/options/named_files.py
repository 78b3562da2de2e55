"""Settings of a write that name a file or a URL: they need the consent of who runs the cluster.

Options can come from people who may not read what the machines of the cluster read, nor reach what these reach: users
of SQL, of Spark Connect, of notebooks. The consent is in the environment of the driver (`OTTLA_ALLOWED_FILES`,
`OTTLA_ALLOWED_URLS`), which no option changes. Files that Spark itself brought need none; they have bare names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.config.allow_lists import check_file, check_url
from ottla_spark.options.shipped_files import LOCATIONS, is_bare_name

PLACE: Final = "the environment of Spark's driver, and for executors as spark.executorEnv.{variable}"

_FILE: Final = re.compile(r"(.*[._])?(location|keytab|files?|paths?|dir|directory|folder)")
"""How the keys end that name files, of our plugins and probably of others."""

_URL: Final = re.compile(r"(.*[._])?ur[il]s?")
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
"""Judged by its plugin, which knows all of its forms."""


def names_a_file(key: str) -> bool:
    """Whether the value of the producer's setting *key* is taken for the name of a file."""
    return _FILE.fullmatch(key) is not None


def names_a_url(key: str) -> bool:
    """Whether it is taken for a URL."""
    return _URL.fullmatch(key) is not None


def problems_of_names(settings: Mapping[str, object]) -> list[str]:
    """What is named without consent. To be asked within `options_of_others`."""
    problems = []
    for key, value in settings.items():
        try:
            _check(key, str(value))
        except ValueError as error:
            problems.append(f"{key}: {error}")
    return problems


def _check(key: str, value: str) -> None:
    if not value or key == _TOKEN_URL:
        return
    if names_a_file(key) and not (key in LOCATIONS and is_bare_name(value)):
        check_file(value)
    if names_a_url(key):
        check_url(value)
