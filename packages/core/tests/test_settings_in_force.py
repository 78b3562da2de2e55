"""`producer.config` and the reprs: the settings in force, where each came from, and no secrets."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla import Producer
from ottla.aio import AsyncProducer
from ottla.config import settings
from ottla_testkit.mock_producer import MockProducer

SERVERS = {"bootstrap.servers": "localhost:9"}


def sources(config: dict[str, Any], **keywords: Any) -> dict[str, str]:
    with Producer(config, **keywords) as producer:
        return {each.key: each.source for each in producer.config.all()}


def test_a_setting_says_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("bootstrap.servers=localhost:9\nlinger.ms=20\nbatch.size=10\n")
    from_file = settings.from_file(tmp_path / "a.properties")
    from_environment = settings.from_environment("K_", {"K_BATCH_SIZE": "11"})
    found = sources(from_file | from_environment | {"retries": 3}, max_block_ms=4)

    assert found["bootstrap.servers"] == f"file {tmp_path / 'a.properties'}"
    assert found["linger.ms"] == f"file {tmp_path / 'a.properties'}"
    assert found["batch.size"] == "environment variable K_BATCH_SIZE"
    assert found["retries"] == "given"
    assert found["max.block.ms"] == "keyword max_block_ms"
    assert found["acks"] == "default"
    assert found["client.id"] == "generated"


def test_a_table_of_toml_is_a_source(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[kafka]\nbootstrap.servers = ["localhost:9"]\n')
    found = settings.from_file(tmp_path / "a.toml", table="kafka")

    assert sources(found)["bootstrap.servers"] == f"file {tmp_path / 'a.toml'}"


def test_a_setting_that_the_program_replaced_is_not_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("bootstrap.servers=localhost:9\nlinger.ms=20\nbatch.size=10\n")
    found = settings.from_file(tmp_path / "a.properties") | {"linger.ms": "7"}
    found["batch.size"] = "11"

    assert sources(found)["linger.ms"] == sources(found)["batch.size"] == "given"
    assert sources({"batch.size": 12} | settings.from_file(tmp_path / "a.properties"))["batch.size"].startswith("file ")


def test_a_setting_that_another_one_adjusts_says_why() -> None:
    with Producer(SERVERS, acks="1", linger_ms=119_000) as producer:
        assert producer.config["enable.idempotence"] == "false"
        assert producer.config.source("enable.idempotence") == "adjusted: acks=1 (idempotence needs acks=all)"
        assert producer.config["delivery.timeout.ms"] == 149_000
        assert producer.config.source("delivery.timeout.ms").startswith(
            "adjusted: it may not be below linger.ms=119000"
        )


def test_values_are_in_kafkas_units() -> None:
    with Producer(SERVERS, linger_ms=" 20 ", acks="ALL", security_protocol="plaintext") as producer:
        assert (producer.config["linger.ms"], producer.config["acks"]) == (20, -1)
        assert producer.config["security.protocol"] == "PLAINTEXT"
        assert producer.config["bootstrap.servers"] == "localhost:9"
        assert producer.config["buffer.memory"] == 33_554_432


def test_a_value_of_a_provider_is_no_more_than_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "localhost:9")
    given = {"bootstrap.servers": "${env:SERVERS}", "config.providers": "env"}
    with Producer(given) as producer:
        assert producer.config.source("bootstrap.servers") == "given, read by a config provider"
        assert producer.config["bootstrap.servers"] == "localhost:9"


def test_no_secret_is_shown() -> None:
    pytest.importorskip("ottla_authenticator_sasl")
    given = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "sesame"}
    cleartext = {"security.protocol": "SASL_PLAINTEXT", "sasl.allow.cleartext.credentials": True}
    with Producer(SERVERS | given | cleartext) as producer:
        config = producer.config
        shown = [repr(producer), repr(config), str(dict(config)), str(config.all()), str(list(config.values()))]

        assert not any("sesame" in text for text in shown)
        assert all("sasl.password=[hidden]" in text for text in shown[:2])
        assert config["sasl.username"] == "alice"
        assert config["sasl.password"] == "[hidden]"


def test_a_producers_repr_has_what_is_not_default_and_if_it_is_closed() -> None:
    producer = Producer(SERVERS, client_id="shop", linger_ms=20)

    assert repr(producer) == "<Producer shop: bootstrap.servers=localhost:9, linger.ms=20>"
    producer.close()
    assert repr(producer) == "<Producer shop, closed: bootstrap.servers=localhost:9, linger.ms=20>"
    assert repr(producer.config).startswith(
        "<bootstrap.servers=localhost:9 (given), client.id=shop (keyword client_id), linger.ms=20 (keyword linger_ms), "
    )
    assert repr(Producer.__new__(Producer)).startswith("<ottla.")


def test_an_async_producer_has_the_same_settings() -> None:
    async def made() -> None:
        async with AsyncProducer(SERVERS, client_id="shop") as producer:
            assert producer.config["bootstrap.servers"] == "localhost:9"
            assert repr(producer) == "<AsyncProducer shop: bootstrap.servers=localhost:9>"

    asyncio.run(made())


def test_a_mock_producer_shows_its_settings() -> None:
    with MockProducer(linger_ms=20) as producer:
        assert producer.config.source("linger.ms") == "keyword linger_ms"
        assert "linger.ms=20" in repr(producer)


def test_a_key_that_nothing_reads_is_not_in_force() -> None:
    with MockProducer() as producer, pytest.raises(KeyError):
        producer.config["linger_ms"]
