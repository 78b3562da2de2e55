"""Files that Spark distributed to its executors: `--files` and `SparkContext.addFile`.

A setting may name such a file by its bare name, because that is the same on every machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from pyspark import SparkContext, SparkFiles

from ottla.config import PluginValues

LOCATIONS: Final = (
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.crl.location",
    "https.ca.location",
    "https.certificate.location",
    "https.key.location",
    "sasl.kerberos.keytab",
)
"""Settings that may use a bare name. A file whose content leaves the process must be allowed by its full path."""


def with_shipped_files(settings: Mapping[str, Any]) -> PluginValues:
    """Return the settings. Replace a file that does not exist by one of that name that Spark distributed, if any."""
    from ottla.config import as_written  # imports many modules, which a process that only commits does not need

    found = {name: _shipped(settings[name]) for name in LOCATIONS if isinstance(settings.get(name), str)}
    return as_written({**settings, **{name: path for name, path in found.items() if path is not None}})


def is_bare_name(value: str) -> bool:
    """Return whether *value* has no folder: it can only name a file that Spark distributed or in a task's folder."""
    return value not in ("", ".", "..") and os.path.basename(value) == value and "\0" not in value


def application_folder() -> str | None:
    """Return this machine's folder of files that Spark distributed; None if no Spark runs here, as in a Connect client.

    Spark creates it for one application, and removes it with that.
    """
    if SparkFiles._is_running_on_worker:
        return SparkFiles._root_directory
    return SparkFiles.getRootDirectory() if SparkContext._active_spark_context is not None else None


def _shipped(path: str) -> str | None:
    if not path or os.path.isabs(path) or os.path.exists(path) or (folder := application_folder()) is None:
        return None
    shipped = os.path.join(folder, path)
    return shipped if os.path.exists(shipped) else None
