"""Files that Spark brought to its executors: `--files` and `SparkContext.addFile`.

A setting that names a file may give its bare name, as it is the same on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pyspark import SparkFiles

from ottla.config import PluginValues, as_written

LOCATIONS: Final = (
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.crl.location",
    "https.ca.location",
    "https.certificate.location",
    "https.key.location",
    "sasl.kerberos.keytab",
)
"""The settings that may name a file so. What leaves the process is not among them: it must be allowed by its path."""


def with_shipped_files(settings: Mapping[str, Any]) -> PluginValues:
    """The settings, with files that are not where they are said to be looked for among those that Spark brought."""
    found = {name: _shipped(settings[name]) for name in LOCATIONS if isinstance(settings.get(name), str)}
    return as_written({**settings, **{name: path for name, path in found.items() if path is not None}})


def is_bare_name(value: str) -> bool:
    """Whether this names a file where a task runs, or one that Spark brought, and nothing else on the machine."""
    return value not in ("", ".", "..") and os.path.basename(value) == value and "\0" not in value


def _shipped(path: str) -> str | None:
    if not path or os.path.isabs(path) or os.path.exists(path) or not SparkFiles._is_running_on_worker:
        return None
    shipped = SparkFiles.get(path)
    return shipped if os.path.exists(shipped) else None
