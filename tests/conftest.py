"""What several test modules share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from secure_broker import SecureBroker, secure_broker

from ottla_testkit.errors import KafkaUnavailable
from ottla_testkit.pytest_plugin import go_without


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The session's broker with TLS and SASL."""
    manager = secure_broker(tmp_path_factory.mktemp("secure"))
    try:
        broker = manager.__enter__()
    except KafkaUnavailable as error:
        go_without(error)
    try:
        yield broker
    finally:
        manager.__exit__(None, None, None)
