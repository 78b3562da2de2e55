"""SCRAM-SHA-256, as a plugin."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.hookspecs import hookimpl
from ottla.interfaces import ConfigKey, Mechanism, PluginConfig
from ottla_authenticator_sasl.scram import scram_keys, scram_mechanism

ottla_conformance = "ottla_authenticator_sasl.conformance:ScramSha256Conformance"


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for name and password, and for a delegation token in their place."""
    return scram_keys()


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    """The mechanism named `SCRAM-SHA-256`."""
    return scram_mechanism(config, name="SCRAM-SHA-256", digest="sha256")
