"""The settings of the reporter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ottla.interfaces import ConfigKey
from ottla_reporter_prometheus.server import Address

LISTEN: Final = "prometheus.listen"
REGISTRY_KEY: Final = "prometheus.registry"
MAX_TOPICS: Final = "prometheus.max.topics"

TOPICS: Final = 1000
"""The default of `prometheus.max.topics`: some 60 time series for each topic."""

DEFAULT: Final = "default"
OWN: Final = "own"


def config_keys() -> Sequence[ConfigKey]:
    """Return the declarations."""
    return [
        ConfigKey(
            name=LISTEN,
            type=address,
            default=None,
            meaning="host:port to answer Prometheus at; left out: the program itself answers, from its registry",
        ),
        ConfigKey(
            name=REGISTRY_KEY,
            type=registry,
            default=DEFAULT,
            meaning=f"`{DEFAULT}`: the registry of the program, which has its other metrics, too; `{OWN}`: one that "
            f"has the metrics of producers alone, which needs {LISTEN}",
        ),
        ConfigKey(
            name=MAX_TOPICS,
            type=number,
            default=TOPICS,
            meaning="the number of topics of a producer that have their own metrics; all others are added up",
        ),
    ]


def address(written: Any) -> Address:
    """Return host and port. Raises ValueError."""
    host, colon, port = str(written).strip().rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError("write host:port, such as 127.0.0.1:9404")
    return host.strip("[]"), int(port)


def registry(written: Any) -> str:
    """Return the name of a registry. Raises ValueError."""
    name = str(written).strip().lower()
    if name not in (DEFAULT, OWN):
        raise ValueError(f"write {DEFAULT} or {OWN}")
    return name


def number(written: Any) -> int:
    """Return the number of topics. Raises ValueError."""
    text = str(written).strip()
    if not text.isdecimal():
        raise ValueError("write a number of topics, such as 1000")
    return int(text)
