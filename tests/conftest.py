"""What several test modules share."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator

import pytest
from secure_broker import SecureBroker, secure_broker

from ottla.errors import OttlaError
from ottla_testkit.errors import KafkaUnavailable
from ottla_testkit.pytest_plugin import go_without
from printed_secrets import ERRORS, key_lines, leaked

KEYS: set[str] = set()
"""Of private keys that tests use, as their files have them."""


@pytest.fixture(autouse=True)
def everything_that_is_said(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every log line at any level, and every error of ours that was made, also where nobody saw it."""
    said = request.node.stash.setdefault(ERRORS, [])
    make = OttlaError.__init__

    def note(error: OttlaError, *arguments: object, **named: object) -> None:
        make(error, *arguments, **named)
        said.append(f"{type(error).__name__}: {error} {error!r}")

    monkeypatch.setattr(OttlaError, "__init__", note)
    logger = logging.getLogger("ottla")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    yield
    logger.setLevel(before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test during which a secret was printed, logged or told in an error has failed."""
    report = yield
    said = [text for _title, text in report.sections] + item.stash.get(ERRORS, [])
    found = leaked("\n".join(said), keys=KEYS)
    if found:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} ({report.when}) let out {found}; look at what it printed, logged and raised"
    return report


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The session's broker with TLS and SASL."""
    manager = secure_broker(tmp_path_factory.mktemp("secure"))
    try:
        broker = manager.__enter__()
    except KafkaUnavailable as error:
        go_without(error)
    KEYS.update(key_lines(broker.security.folder))
    try:
        yield broker
    finally:
        manager.__exit__(None, None, None)
