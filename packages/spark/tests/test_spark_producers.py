"""How long a producer lives in a Python worker. No broker: a producer connects only for its first record."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ottla import Producer, ProducerClosed
from ottla_spark import producers


def settings(client_id: str = "") -> dict[str, str]:
    return {"bootstrap.servers": "127.0.0.1:1", "client.id": client_id}


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin without producers, and close what a test leaves."""
    kept: dict[producers.Key, Producer] = {}
    monkeypatch.setattr(producers, "_producers", kept)
    yield
    for producer in kept.values():
        producer.close()


def test_equal_settings_share_a_producer() -> None:
    assert producers.shared(settings("a")) is producers.shared(settings("a"))


def test_other_settings_get_another_producer() -> None:
    assert producers.shared(settings("a")) is not producers.shared(settings("b"))


def test_a_producer_stays_in_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    here = producers.shared(settings())
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)

    assert producers.shared(settings()) is not here


def test_the_producer_unused_for_longest_is_closed() -> None:
    made = {name: producers.shared(settings(name)) for name in "abcd"}
    producers.shared(settings("a"))

    producers.shared(settings("e"))

    with pytest.raises(ProducerClosed):
        made["b"].send("t", b"")
    assert producers.shared(settings("a")) is made["a"]


def test_after_a_failure_the_next_task_gets_a_new_producer() -> None:
    spoilt = producers.shared(settings())

    producers.give_up(settings())

    assert producers.shared(settings()) is not spoilt
    with pytest.raises(ProducerClosed):
        spoilt.send("t", b"")


def test_giving_up_what_was_never_made_is_harmless() -> None:
    producers.give_up(settings())
