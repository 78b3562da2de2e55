"""Mechanisms as the core makes them: found by name, their keys declared, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.config import ConfigDraft
from ottla.errors import AuthenticationError, ConfigError
from ottla.interfaces import Authenticator, Mechanism
from ottla.plugins.registry import Registry

ALICE = {"sasl.username": "alice", "sasl.password": "s3cret-of-alice"}


def mechanism(name: str, settings: Mapping[str, Any]) -> Mechanism:
    """The mechanism for these settings. Raises what the user would see."""
    registry = Registry()
    plugin = registry.plugin("authenticator", name)
    draft = ConfigDraft.read({"bootstrap.servers": "kafka:9092"} | dict(settings))
    values = draft.claim(plugin.config_keys(), plugin=str(plugin))
    draft.finish(other_keys=registry.built_in_keys)
    made: Mechanism = plugin.create(values)
    return made


def problem(name: str, settings: Mapping[str, Any]) -> str:
    """The error for settings that are refused."""
    with pytest.raises(ConfigError) as caught:
        mechanism(name, settings)
    return str(caught.value)


def refusal(exchange: Authenticator, data: bytes) -> str:
    """The error for a broker's message that is refused."""
    with pytest.raises(AuthenticationError) as caught:
        exchange.challenge(data)
    return str(caught.value)
