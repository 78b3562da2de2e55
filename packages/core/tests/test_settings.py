"""Settings are read from properties files, TOML and the environment, and a producer takes them."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ottla.config
from ottla import ConfigError, Producer, check_config
from ottla.aio import AsyncProducer
from ottla.config import settings
from ottla.errors.secret import Secret, revealed
from ottla_testkit.mock_producer import MockProducer

PROPERTIES = r"""
# of Kafka's own tools
bootstrap.servers=kafka-1:9092,\
                  kafka-2:9092
compression.type: zstd
sasl.password=caf\u00e9
"""
TOML = """
[kafka.producer]
bootstrap.servers = ["kafka-1:9092", "kafka-2:9092"]
"linger.ms" = 5
sasl.password = "café"

[kafka.producer.compression]
type = "zstd"
"""


def test_a_properties_file_in_utf_8_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "a.properties"
    for encoding, warned in (("utf-8", True), ("iso-8859-1", False)):
        file.write_text("sasl.password=caf\u00e9\n", encoding=encoding)
        caplog.clear()
        settings.from_file(file)
        assert [("a.properties is read as ISO 8859-1" in line, "caf" in line) for line in caplog.messages] == (
            [(True, False)] if warned else []
        )


words = st.text("abcdefghijklmnopqrstuvwxyz0123456789-_", min_size=1, max_size=8)
keys = st.lists(words, min_size=1, max_size=4).map(".".join)
values = (
    st.text(max_size=20) | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.lists(st.text(max_size=5), max_size=3)
)


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8" if name.endswith(".toml") else "iso-8859-1")
    return file


def plain(found: dict[str, Any]) -> dict[str, Any]:
    return {key: revealed(value) for key, value in found.items()}


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    found = settings.from_file(written(tmp_path, "producer.properties", PROPERTIES))

    assert plain(found) == {
        "bootstrap.servers": "kafka-1:9092,kafka-2:9092",
        "compression.type": "zstd",
        "sasl.password": "café",
    }


def test_a_table_of_a_toml_file_is_read_with_dotted_names(tmp_path: Path) -> None:
    found = settings.from_file(written(tmp_path, "app.toml", TOML), table="kafka.producer")

    assert plain(found) == {
        "bootstrap.servers": ["kafka-1:9092", "kafka-2:9092"],
        "linger.ms": 5,
        "sasl.password": "café",
        "compression.type": "zstd",
    }


def test_a_configuration_that_is_read_is_complete(tmp_path: Path) -> None:
    found = settings.from_file(written(tmp_path, "app.toml", TOML), table="kafka.producer")

    check_config(found | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"})


def test_environment_variables_are_settings() -> None:
    environment = {
        "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
        "KAFKA_SASL_PASSWORD": "hidden away",
        "kafka_linger_ms": "5",
        "KAFKA_": "nothing",
        "KAFKA_ACME__KEY": "x",
        "PATH": "/bin",
    }

    found = settings.from_environment("KAFKA_", environment)

    assert plain(found) == {"bootstrap.servers": "kafka:9092", "sasl.password": "hidden away", "acme_key": "x"}


def test_environment_variables_of_this_process_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_KAFKA_LINGER_MS", "7")

    assert settings.from_environment("ORDERS_KAFKA_") == {"linger.ms": "7"}


def test_secrets_are_not_shown_by_what_is_read(tmp_path: Path) -> None:
    from_file = settings.from_file(written(tmp_path, "p.properties", PROPERTIES))
    from_environment = settings.from_environment("K_", {"K_SASL_PASSWORD": "hidden away"})

    assert isinstance(from_file["sasl.password"], Secret)
    assert "café" not in repr(from_file)
    assert "hidden away" not in repr(from_environment)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.toml", "a = 'hunter2", "cannot be read: Expected"),
        ("a.toml", "a = 1979-05-27", r"'a' must be a text, a number, true, false, or a list of texts"),
        ("a.toml", "a = [1]", r"'a' must be a text"),
        ("a.toml", "a.b = 1\n'a.b' = 2", r"'a\.b' is given twice"),
        ("a.properties", r"a=hunter2\u12", r"line 1 has a \\u without four hexadecimal digits"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error_without_values(
    tmp_path: Path, name: str, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        settings.from_file(written(tmp_path, name, text))

    assert f"{tmp_path / name} cannot be read: " in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("a.json", '{"bootstrap.servers": "localhost:9092", "sasl.password": "sesame"}', "JSON"),
        ("a.ini", "[default]\nsasl.password = sesame", "an INI file or JSON"),
        ("a.txt", "\n  [kafka]\nlinger.ms = 5", "an INI file or JSON"),
        ("a.ini", "; see [1]\r\n\r\n# of a={}\r\n[default]\r\nlinger.ms = 5", "an INI file or JSON"),
    ],
)
def test_a_file_that_has_json_or_sections_is_refused(name: str, text: str, kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"it begins as {kind}; it must be a properties file, or TOML") as caught:
        settings.from_file(written(tmp_path, name, text))

    assert "sesame" not in str(caught.value)


def test_a_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read: No such file or directory"):
        settings.from_file(tmp_path / "none.toml")


def test_a_table_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"it has no table 'kafka\.consumer'"):
        settings.from_file(written(tmp_path, "app.toml", TOML), table="kafka.consumer")
    with pytest.raises(ConfigError, match="a properties file has no tables"):
        settings.from_file(written(tmp_path, "p.properties", PROPERTIES), table="kafka")


def test_bytes_that_are_not_utf8_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"a = '\xff'")

    with pytest.raises(ConfigError, match="cannot be read: 'utf-8' codec"):
        settings.from_file(file)


def test_two_variables_for_one_setting_are_an_error() -> None:
    with pytest.raises(ConfigError, match=r"linger\.ms is given twice, the second time by .* K_linger_ms"):
        settings.from_environment("K_", {"K_LINGER_MS": "1", "K_linger_ms": "2"})


def test_an_empty_prefix_is_an_error() -> None:
    with pytest.raises(ConfigError, match="the prefix is empty"):
        settings.from_environment("")


@given(st.dictionaries(keys, values, max_size=6))
def test_any_setting_that_toml_can_hold_is_read(tmp_path_factory: pytest.TempPathFactory, given_settings: Any) -> None:
    lines = [f"{json.dumps(key)} = {json.dumps(value, ensure_ascii=False)}" for key, value in given_settings.items()]
    text = "\n".join(lines).replace("\x7f", "\\u007f")  # the only character that JSON allows and TOML does not
    file = written(tmp_path_factory.getbasetemp(), "any.toml", text)

    assert plain(settings.from_file(file)) == given_settings


# Several sources


def test_later_sources_replace_earlier_ones_and_the_environment_is_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = written(tmp_path, "base.toml", TOML)
    own = written(tmp_path, "own.properties", "linger.ms=6\nbatch.size=1\nacks=1")
    monkeypatch.setenv("SHOP_ACKS", "all")
    monkeypatch.setenv("SHOP_SASL_PASSWORD", "hidden away")

    found = settings.read(base, str(own), {"batch.size": 2}, environment="SHOP_", table="kafka.producer")

    assert plain(found) == {
        "bootstrap.servers": ["kafka-1:9092", "kafka-2:9092"],
        "linger.ms": "6",
        "sasl.password": "hidden away",
        "compression.type": "zstd",
        "batch.size": 2,
        "acks": "all",
    }
    assert "hidden away" not in repr(found)
    config = check_config({**found, "sasl.password": None})
    assert config["linger.ms"] == 6


def test_settings_of_several_sources_keep_where_they_came_from(tmp_path: Path) -> None:
    base = written(tmp_path, "base.properties", "bootstrap.servers=a:1\nlinger.ms=1")
    own = written(tmp_path, "own.properties", "linger.ms=2")

    config = check_config(settings.read(base, own, {"batch.size": 3}))

    assert config.source("bootstrap.servers") == f"file {base}"
    assert (config["linger.ms"], config.source("linger.ms")) == (2, f"file {own}")
    assert config.source("batch.size") == "given"


def test_no_source_is_no_setting() -> None:
    assert settings.read() == {}
    assert ottla.config.read is settings.read


def test_a_source_that_is_neither_path_nor_mapping_is_an_error() -> None:
    with pytest.raises(ConfigError, match="from a path or a mapping, not from a list"):
        settings.read(["linger.ms"])  # type: ignore[arg-type]


# A producer from a file


def test_a_producer_is_made_from_a_file_and_keywords_replace_its_settings(tmp_path: Path) -> None:
    file = written(tmp_path, "p.properties", "bootstrap.servers=127.0.0.1:1\nlinger.ms=1\nbatch.size=1")

    with Producer.from_file(file, linger_ms=7, batch_size=None) as producer:
        config = producer.config

    assert config.source("bootstrap.servers") == f"file {file}"
    assert (config["linger.ms"], config.source("linger.ms")) == (7, "keyword linger_ms")
    assert (config["batch.size"], config.source("batch.size")) == (16_384, "default")


def test_a_producer_is_made_from_a_table_of_toml(tmp_path: Path) -> None:
    file = written(tmp_path, "app.toml", "[orders]\n'bootstrap.servers' = '127.0.0.1:1'\nlinger.ms = 3")

    with Producer.from_file(str(file), table="orders") as producer:
        assert producer.config["linger.ms"] == 3


def test_an_async_producer_is_made_from_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, "p.properties", "bootstrap.servers=127.0.0.1:1\nlinger.ms=1")

    async def made() -> object:
        async with AsyncProducer.from_file(file, linger_ms=4) as producer:
            return producer.config["linger.ms"]

    assert asyncio.run(made()) == 4


def test_a_mock_producer_is_made_from_a_file(tmp_path: Path) -> None:
    file = written(tmp_path, "p.properties", "bootstrap.servers=127.0.0.1:1\nlinger.ms=1")

    with MockProducer.from_file(file) as producer:
        assert type(producer) is MockProducer


def test_the_name_of_a_serializer_of_keys_is_no_secret(tmp_path: Path) -> None:
    found = settings.from_file(written(tmp_path, "p.properties", "key.serializer=string\nssl.key.password=x"))

    assert found["key.serializer"] == "string"
    assert isinstance(found["ssl.key.password"], Secret)


# Names that may be no names


KEY_LINES = ("MHcCAQEEIFCdQ3lmb3Jz", "AwEHoUQDQgAEq0hY2Ezc", "ZG9lc24ndCBtYXR0ZXI=")


@pytest.mark.parametrize("begin", ["ssl.keystore.key=-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"])
@pytest.mark.parametrize("end", ["-----END PRIVATE KEY-----", ""])
def test_a_pem_key_that_was_pasted_without_joined_lines_is_not_quoted(tmp_path: Path, begin: str, end: str) -> None:
    file = written(tmp_path, "a.properties", "\n".join(["bootstrap.servers=k:1", begin, *KEY_LINES, end]))

    with pytest.raises(ConfigError) as caught:
        settings.from_file(file)

    assert "line 2 has a part of a PEM text" in str(caught.value)
    assert r"write \n\ at the end of each of them but the last" in str(caught.value)
    assert [line for line in KEY_LINES if line.rstrip("=") in str(caught.value)] == []


def test_a_pem_key_whose_lines_are_joined_is_read(tmp_path: Path) -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", *KEY_LINES, "-----END PRIVATE KEY-----"]
    file = written(tmp_path, "a.properties", "ssl.keystore.key=" + "\\n\\\n".join(lines))

    assert plain(settings.from_file(file)) == {"ssl.keystore.key": "\n".join(lines)}


@pytest.mark.parametrize("rest", [*KEY_LINES, "hunter2", "Tr0ub4dor-and-3: x", "correct horse"])
def test_a_line_that_may_continue_a_secret_is_named_and_not_quoted(tmp_path: Path, rest: str) -> None:
    file = written(tmp_path, "a.properties", f"bootstrap.servers=k:1\nsasl.password=\n{rest}\n")

    with pytest.raises(ConfigError) as caught:
        Producer(settings.from_file(file))

    assert f"line 3 of file {file} does not begin with the name of a setting" in str(caught.value)
    assert [word for word in rest.rstrip("=").split(":") if word in str(caught.value)] == []


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("lingr.ms=5", "did you mean 'linger.ms'?"),
        ("Bootstrap_Servers=k:1", "did you mean 'bootstrap.servers'?"),
        ("acmer.address=k:1", "neither Kafka nor a plugin that the configuration chooses has it"),
    ],
)
def test_an_unknown_name_in_a_file_is_quoted(tmp_path: Path, line: str, hint: str) -> None:
    file = written(tmp_path, "a.properties", f"bootstrap.servers=k:1\n{line}\n")

    with pytest.raises(ConfigError) as caught:
        Producer(settings.from_file(file))

    assert f"{line.partition('=')[0]!r} is not a known key; {hint}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.properties", b"\xef\xbb\xbfacks=1", "it begins with a byte order mark (BOM)"),
        ("a.toml", b"\xef\xbb\xbfacks=1", "it begins with a byte order mark (BOM)"),
        ("a.properties", "acks=1".encode("utf-16"), "it begins with a byte order mark (BOM)"),
        ("a.toml", b"a=" + b"[" * 100_000, "its tables or arrays are nested too deeply"),
        ("a.toml", b"a." * 10_000 + b"b=1", "its tables or arrays are nested too deeply"),
        ("a.toml", b"x" * 10_000 + b"=1", "the name of a setting has 10000 characters"),
        ("a.properties", b"acks=1\n" + b"x" * 10_000, "the name in line 2 has 10000 characters"),
    ],
)
def test_a_file_of_an_unusable_form_is_refused_in_short_words(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ConfigError, match=re.escape(f"{name} cannot be read: {said}")) as caught:
        settings.from_file(tmp_path / name)

    assert len(str(caught.value)) < 500


def test_a_long_name_of_a_program_is_not_quoted() -> None:
    with pytest.raises(ConfigError, match="a name of 5000 characters is not a known key"):
        Producer({"bootstrap.servers": "k:1", "x" * 5000: 1})
