"""A warning for credentials that are sent without encryption."""

from __future__ import annotations

import logging
from typing import Final

from ottla.interfaces import ConfigKey, PluginConfig, boolean

_log = logging.getLogger(__name__)

ALLOWED: Final = "sasl.allow.cleartext.credentials"
PROTOCOL: Final = "security.protocol"

_warned: set[str] = set()
"""Mechanisms that this process has warned about: one line each, even with many producers."""


CLEARTEXT_KEYS: Final = (
    ConfigKey(
        name=ALLOWED,
        type=boolean,
        default=False,
        meaning="true: no warning when SASL_PLAINTEXT sends a password or token without encryption",
    ),
    ConfigKey(name=PROTOCOL, type=str, default="PLAINTEXT", meaning="whether connections are encrypted"),
)


def warn_of_cleartext(config: PluginConfig, *, mechanism: str, sent: str) -> None:
    """Warn once per process and mechanism, unless the configuration allows it."""
    unencrypted = config[PROTOCOL].strip().upper() == "SASL_PLAINTEXT"
    if not unencrypted or config[ALLOWED] or mechanism in _warned:
        return
    _warned.add(mechanism)
    _log.warning(
        "sasl.mechanism=%s over security.protocol=SASL_PLAINTEXT: %s can be read by every machine between this program "
        "and the brokers; use SASL_SSL, or set sasl.allow.cleartext.credentials=true if the network is trusted",
        mechanism,
        sent,
    )
