"""Tests that the provider meets all requirements, and its own promises."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path

import ottla
import pytest
from ottla import ConfigError
from ottla.interfaces import ConfigProvider
from ottla_testkit.conformance import plugin_context
from ottla_testkit.mock_producer import MockProducer

from ottla_config_dotenv.conformance import DotenvConformance
from ottla_config_dotenv.parser import parse
from ottla_config_dotenv.plugin import FILE, ottla_config_keys, ottla_config_provider


def provider_of(file: Path | None) -> ConfigProvider:
    return ottla_config_provider(
        config={FILE: None if file is None else str(file)}, context=plugin_context(client_id=None)
    )


class TestWithoutPath(DotenvConformance):
    """References without a path: the parameter names the file."""


class TestWithPath(DotenvConformance):
    """References with a path."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> ConfigProvider:
        self._file = tmp_path / "kafka.env"
        type(self).path = str(self._file)  # a class variable of the suite
        self._write("ann", "the password of ann")
        return provider_of(None)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("A=b", "b"),
        ("A=b\n", "b"),
        ("A=b\r\nC=d\r\n", "b"),
        ("  export A = b c \t\n", "b c"),
        ("exported=x\nA=b", "b"),
        ("A=", ""),
        ("A= # nothing\nC=d", ""),
        ("A=#nothing", ""),
        ("A=b # a comment", "b"),
        ("A=b#c", "b#c"),
        ("A=b=c==", "b=c=="),
        ("A=b'c\"", "b'c\""),
        ("A='b # \\n $C' # a comment", "b # \\n $C"),
        ('A="b # c"', "b # c"),
        (r'A="say \"b\"\n\t\\ \d \$"', 'say "b"\n\t\\ \\d $'),
        ('A="b\nc"\nD=e', "b\nc"),
        ("A=''", ""),
        ("A=$B ${C}", "$B ${C}"),
        ("A=1\nA=2", "2"),
        ("# A=1\n\n \t\nA=2", "2"),
        ("A=pässwörd", "pässwörd"),
        ("A=a\\nb", "a\\nb"),
    ],
)
def test_values_are_read(text: str, value: str) -> None:
    assert parse(text)["A"] == value


def test_all_values_of_a_file_are_read() -> None:
    assert parse("A=\nB='x\ny'\n#\nexport C=d # e\n\nD=\"\"\nE= #\nF=f") == {
        "A": "",
        "B": "x\ny",
        "C": "d",
        "D": "",
        "E": "",
        "F": "f",
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b"A=1\nswordfish\n", "line 2 is not NAME=value"),
        (b"A=1\n\n3A=swordfish\n", "line 3 is not NAME=value"),
        (b"=swordfish", "line 1 is not NAME=value"),
        (b"A=1\nB='swordfish\n\n", "line 2 has a quotation mark without its end"),
        (b'A="swordfish\\"', "line 1 has a quotation mark without its end"),
        (b"A='1'swordfish", "line 1 has text after the closing quotation mark"),
        (b"A=swordfish\xff", "is not in UTF-8"),
        (b"A=swordfish\n" * 100_000, "has more than 1048576 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_says_what_is_wrong_and_no_secret(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "kafka.env"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(ConfigError, match=said) as caught:
        provider_of(file).get("", {"A"})

    frames = caught.tb.tb_next  # without this function
    reported = "".join(traceback.TracebackException(caught.type, caught.value, frames, capture_locals=True).format())
    assert str(file) in str(caught.value)
    assert "swordfish" not in reported


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "kafka.env"
    file.write_bytes(b"\xef\xbb\xbfA=b")

    assert provider_of(file).get("", {"A", "B"}) == {"A": "b"}


@pytest.mark.parametrize(
    ("path", "said"), [("", "has no path"), ("kafka.env", "absolute"), ("/a\0b", "its path is malformed")]
)
def test_a_path_that_cannot_be_is_refused(path: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        provider_of(None).get(path, {"A"})


def test_the_path_of_a_reference_takes_precedence(tmp_path: Path) -> None:
    (tmp_path / "one.env").write_text("A=1")
    (tmp_path / "two.env").write_text("A=2")
    provider = provider_of(tmp_path / "one.env")

    assert provider.get("", {"A"}) == {"A": "1"}
    assert provider.get(str(tmp_path / "two.env"), {"A"}) == {"A": "2"}


def test_no_value_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "kafka.env").write_text("A=swordfish")
    caplog.set_level(logging.DEBUG)
    provider_of(tmp_path / "kafka.env").get("", {"A"})

    assert "swordfish" not in caplog.text


def test_the_parameter_must_be_absolute() -> None:
    [key] = ottla_config_keys()

    assert key.type("/run/secrets/kafka.env") == "/run/secrets/kafka.env"
    assert key.type(Path("/run/secrets/kafka.env")) == "/run/secrets/kafka.env"
    with pytest.raises(ValueError, match="absolute path"):
        key.type("kafka.env")


def test_a_producer_reads_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "kafka.env"
    file.write_text("CODEC=gzip\nCLIENT='my client'\n")
    settings = {
        "config.providers": "dotenv,other",
        "config.providers.dotenv.param.file": str(file),
        "config.providers.other.class": "dotenv",
        "compression.type": "${dotenv:CODEC}",
        "client.id": f"${{other:{file}:CLIENT}}",
    }
    with MockProducer(settings) as producer:
        assert producer.send("orders", b"three apples").result().offset == 0


def test_a_missing_name_is_an_error_of_the_setting(tmp_path: Path) -> None:
    (tmp_path / "kafka.env").write_text("A=swordfish")

    with pytest.raises(ConfigError, match="MISSING") as caught:
        ottla.check_config(
            {
                "bootstrap.servers": "kafka:9092",
                "config.providers": "dotenv",
                "client.id": f"${{dotenv:{tmp_path}/kafka.env:MISSING}}",
            }
        )
    assert "swordfish" not in str(caught.value)
