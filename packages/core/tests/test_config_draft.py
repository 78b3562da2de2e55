"""Keys of the core, of plugins, of Java's producer, and unknown ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import pytest

from ottla.config import ConfigDraft, ProducerConfig, describe
from ottla.config.config_def import OPTIONS
from ottla.config.java_keys import JAVA_KEYS
from ottla.errors import ConfigError
from ottla.interfaces import ConfigKey

SERVERS = {"bootstrap.servers": "kafka:9092"}


def key(name: str, **changes: object) -> ConfigKey:
    return ConfigKey(**{"name": name, "type": int, "default": 7, "meaning": "how much", **changes})  # type: ignore[arg-type]


def port_above_80(raw: object) -> int:
    port = int(str(raw))
    if port <= 80:
        raise ValueError("must be above 80")
    return port


def finish_refused(draft: ConfigDraft, installed: Iterable[str] = ()) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        draft.finish(other_keys=lambda: installed)
    return caught.value.problems


def test_problems_of_core_plugins_and_spelling_are_one_error() -> None:
    draft = ConfigDraft.read({"linger.ms": "soon", "proxy.port": "80", "lingr.ms": 5})
    draft.claim([key("proxy.port", type=port_above_80)], plugin="transport 'socks'")

    assert finish_refused(draft) == (
        "linger.ms: 'soon' is not a whole number of at least 0",
        "bootstrap.servers: required; name at least one server as host:port",
        "proxy.port='80': must be above 80 (transport 'socks': how much)",
        "'lingr.ms' is not a known key; did you mean 'linger.ms'?",
    )


def test_the_draft_shows_the_chosen_plugins_despite_other_problems() -> None:
    draft = ConfigDraft.read({"compression.type": "zstd", "linger.ms": "soon", "acks": 5})

    assert draft.config.batching.compression_type == "zstd"
    assert (draft.config.batching.linger, draft.config.delivery.acks) == (0.005, -1)


def test_a_plugin_gets_its_keys_typed_and_with_defaults() -> None:
    draft = ConfigDraft.read({**SERVERS, "proxy.port": "1080"})

    assert draft.claim([key("proxy.port"), key("proxy.depth")], plugin="socks") == {
        "proxy.port": 1080,
        "proxy.depth": 7,
    }


def test_keys_of_plugins_are_kept_as_they_were_written() -> None:
    draft = ConfigDraft.read({**SERVERS, "proxy.port": "1080"})
    draft.claim([key("proxy.port"), key("proxy.depth")], plugin="socks")

    assert draft.finish().plugin_values == {"proxy.port": "1080"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"batch.size": "100"}, 100),
        ({}, 16384),
        ({"buffer.memory": 1000}, 1000),
        ({"batch.size": None}, 16384),
    ],
)
def test_a_plugin_may_read_a_key_of_the_core_with_its_effective_value(
    settings: dict[str, object], expected: int
) -> None:
    draft = ConfigDraft.read({**SERVERS, **settings})

    assert {"batch.size": expected} == draft.claim([key("batch.size")], plugin="murmur2")


def test_a_wrong_value_of_a_shared_key_is_reported_once() -> None:
    draft = ConfigDraft.read({**SERVERS, "batch.size": "big"})
    draft.claim([key("batch.size")], plugin="murmur2")

    [problem] = finish_refused(draft)
    assert problem.startswith("batch.size: 'big'")


def test_two_plugins_that_read_the_same_wrong_key_report_it_once() -> None:
    draft = ConfigDraft.read({**SERVERS, "avro.level": "x"})
    for _ in range(2):
        draft.claim([key("avro.level")], plugin="avro")

    assert len(finish_refused(draft)) == 1


def test_an_unexpected_error_of_a_type_is_reported_without_its_text() -> None:
    draft = ConfigDraft.read({**SERVERS, "acme.port": "80"})
    draft.claim([key("acme.port", type={}.__getitem__)], plugin="transport 'acme'")

    [problem] = finish_refused(draft)
    assert problem.startswith("acme.port='80': the key's type raised KeyError instead of ValueError or TypeError")
    assert "transport 'acme'" in problem


def test_a_secret_of_one_plugin_is_not_shown_by_another() -> None:
    draft = ConfigDraft.read({**SERVERS, "acme.port": "hunter2"})
    draft.claim([key("acme.port", type=str, secret=True)], plugin="transport 'acme'")
    draft.claim([key("acme.port", type=int)], plugin="partitioner 'acme'")

    [problem] = finish_refused(draft)
    assert problem.startswith("acme.port=[hidden]: not accepted by partitioner 'acme'")


def test_a_problem_reported_by_a_caller_is_raised_with_the_others() -> None:
    draft = ConfigDraft.read({**SERVERS, "acks": 7})
    draft.object_to("the moon is full")

    assert "the moon is full" in finish_refused(draft)
    assert len(draft.problems) == 2


def test_a_draft_without_problems_is_accepted() -> None:
    assert isinstance(ConfigDraft.read(SERVERS).finish(), ProducerConfig)


def test_unused_java_keys_cause_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        **SERVERS,
        "ssl.truststore.location": "x",
        "metrics.recording.level": 3,
        "sasl.jaas.config": None,
    }
    ConfigDraft.read(settings).finish()

    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert ": metrics.recording.level, ssl.truststore.location" in record.getMessage()


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"sasl.jaas.config": "x"}, "PLAINTEXT: set it to SASL_SSL or SASL_PLAINTEXT if brokers want a login"),
        (
            {"sasl.jaas.config": "x", "security.protocol": "SSL"},
            "SSL: set it to SASL_SSL or SASL_PLAINTEXT if brokers want a login",
        ),
        ({"ssl.truststore.location": "x"}, "PLAINTEXT: set it to SSL or SASL_SSL if brokers use TLS"),
        (
            {"ssl.truststore.location": "x", "security.protocol": "SASL_PLAINTEXT"},
            "SASL_PLAINTEXT: set it to SSL or SASL_SSL if brokers use TLS",
        ),
    ],
)
def test_unused_keys_of_a_login_or_of_tls_name_the_protocol(
    settings: dict[str, str], hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    ConfigDraft.read({**SERVERS, **settings}).finish()

    [record] = caplog.records
    assert record.getMessage().endswith(f"; security.protocol is {hint}")


def test_other_unused_keys_have_no_hint_at_the_protocol(caplog: pytest.LogCaptureFixture) -> None:
    ConfigDraft.read({**SERVERS, "metrics.recording.level": 3}).finish()

    [record] = caplog.records
    assert record.getMessage().endswith(": metrics.recording.level")


def test_keys_of_an_unchosen_installed_plugin_are_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    ConfigDraft.read({**SERVERS, "proxy.port": 1}).finish(other_keys=lambda: ["proxy.port"])

    assert "proxy.port" in caplog.text


def test_a_key_that_a_chosen_plugin_claims_is_not_in_the_warning(caplog: pytest.LogCaptureFixture) -> None:
    draft = ConfigDraft.read({**SERVERS, "ssl.truststore.location": "x"})
    draft.claim([key("ssl.truststore.location", type=str)], plugin="ssl")
    draft.finish()

    assert caplog.text == ""


def test_other_plugins_are_loaded_only_for_an_unclaimed_key() -> None:
    def never() -> Iterable[str]:
        raise AssertionError

    draft = ConfigDraft.read({**SERVERS, "proxy.port": 1, "ssl.protocol": "TLSv1.3"})
    draft.claim([key("proxy.port")], plugin="socks")
    draft.finish(other_keys=never)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("lingr.ms", "linger.ms"),
        ("linger_ms", "linger.ms"),
        ("Batch.Size", "batch.size"),
        ("proxy.prt", "proxy.port"),
        ("queue.buffering.max.ms", "linger.ms"),
        ("message.timeout.ms", "delivery.timeout.ms"),
        ("max_in_flight", "max.in.flight.requests.per.connection"),
        ("transactional.ids", "transactional.id"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_match(written: str, meant: str) -> None:
    *_, problem = finish_refused(ConfigDraft.read({**SERVERS, written: 1}), ["proxy.port"])

    assert f"{written!r} is not a known key; did you mean {meant!r}?" == problem


@pytest.mark.parametrize("written", ["sasl.password ", "sasl_password", "SASL.password"])
def test_another_spelling_of_a_plugins_key_is_not_called_uninstalled(written: str) -> None:
    *_, problem = finish_refused(ConfigDraft.read({**SERVERS, written: 1}), ["sasl.password"])
    assert problem == f"{written!r} is not a known key; did you mean 'sasl.password'?"

    *_, problem = finish_refused(ConfigDraft.read({**SERVERS, written: 1}))
    assert "try: pip install ottla-authenticator-sasl" in problem


@pytest.mark.parametrize("value", [1, None])
def test_an_unknown_key_without_a_near_match_is_refused(value: object) -> None:
    [problem] = finish_refused(ConfigDraft.read({**SERVERS, "xyzzy": value}))

    assert problem == "'xyzzy' is not a known key; neither Kafka nor a plugin that the configuration chooses has it"


def test_a_key_that_is_not_a_string_is_refused() -> None:
    [problem] = finish_refused(ConfigDraft.read({**SERVERS, b"linger.ms": 5}))  # type: ignore[dict-item]

    assert problem.startswith("b'linger.ms' is not a key")


@pytest.mark.parametrize("settings", ["kafka:9092", ["kafka:9092"], 9092])
def test_settings_that_are_not_a_mapping_are_one_of_the_problems(settings: object) -> None:
    problems = finish_refused(ConfigDraft.read(settings, {"linger_ms": "soon"}))  # type: ignore[arg-type]

    assert problems[0].startswith(f"the settings must be a mapping with Kafka's names, not {type(settings).__name__};")
    assert any(problem.startswith("linger.ms") for problem in problems)


def test_keywords_are_keys_with_underscores_for_dots() -> None:
    draft = ConfigDraft.read({}, {"bootstrap_servers": "kafka:9092", "linger_ms": 9, "proxy_port": 1})
    draft.claim([key("proxy.port")], plugin="socks")
    read = draft.finish()

    assert (read.batching.linger, dict(read.plugin_values)) == (0.009, {"proxy.port": 1})


def test_a_key_given_in_both_spellings_is_refused() -> None:
    draft = ConfigDraft.read({**SERVERS, "linger.ms": 5}, {"linger_ms": 5})

    assert finish_refused(draft) == ("linger.ms is given twice, as 'linger.ms' and as linger_ms=...; leave one out",)


def test_none_in_one_spelling_does_not_hide_the_other() -> None:
    assert ConfigDraft.read({**SERVERS, "linger.ms": 9}, {"linger_ms": None}).finish().batching.linger == 0.009
    assert ConfigDraft.read({**SERVERS, "linger.ms": None}, {"linger_ms": 9}).finish().batching.linger == 0.009


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.password", False),
        ("ssl.key.password", False),
        ("sasl.jaas.config", False),
        ("proxy.token", False),
        ("proxy.client.secret", False),
        ("ssl.keystore.key", False),
        ("proxy.pin", True),
    ],
)
def test_a_secret_is_shown_nowhere(name: str, secret: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    draft = ConfigDraft.read({**SERVERS, name: "hunter2"})
    claimed = draft.claim([key(name, type=str, secret=secret)], plugin="x")
    shown = [repr(draft), repr(draft.config), repr(claimed), repr(draft.finish()), caplog.text]

    wrong = ConfigDraft.read({**SERVERS, name: "hunter2"})
    wrong.claim([key(name, type=int, secret=secret)], plugin="x")

    assert claimed[name] == "hunter2"
    assert not [text for text in shown if "hunter2" in text]
    assert (f"{name}=[hidden]: not accepted by x; how much",) == finish_refused(wrong)


def test_claimed_values_are_a_read_only_mapping() -> None:
    claimed = ConfigDraft.read(SERVERS).claim([key("a.b"), key("c.d")], plugin="x")

    assert len(claimed) == 2
    assert not hasattr(claimed, "__setitem__")


def test_unclaimed_values_are_secret_until_a_plugin_claims_them() -> None:
    assert "hunter2" not in repr(ConfigDraft.read({**SERVERS, "proxy.pin": "hunter2"}).config)


def test_non_secret_values_are_shown() -> None:
    draft = ConfigDraft.read({**SERVERS, "keyspace.size": 5, "ssl.keystore.location": "here"})
    claimed = draft.claim([key("keyspace.size"), key("ssl.keystore.location", type=str)], plugin="x")

    assert repr(claimed) == "{'keyspace.size': 5, 'ssl.keystore.location': 'here'}"


def test_every_key_of_the_java_producer_is_known_by_name() -> None:
    assert len(JAVA_KEYS) == 120
    own = {
        "batch.growth.enable",
        "connection.via",
        "io.handoff.enable",
        "record.encoder",
        "slow.record.threshold.ms",
        "undelivered.exit.code",
    }
    of_librdkafka = {"receive.message.max.bytes"}

    unknown = sorted(OPTIONS.keys() - own - of_librdkafka - JAVA_KEYS)
    assert not unknown, "Java's producer has no such setting: take Java's name, or add a key of our own to `own` above"
    gone = sorted(own - OPTIONS.keys())
    assert not gone, "no section has these settings any more: take them from `own` above"


def test_every_key_is_described() -> None:
    rows = describe()

    assert len(OPTIONS) == len({row.key for row in rows})
    assert all(row.meaning.endswith(".") and row.type for row in rows)
