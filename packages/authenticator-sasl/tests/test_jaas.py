"""`sasl.jaas.config` is read as Java reads it, and errors quote nothing of it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_authenticator_sasl.jaas import LoginModule, login_module

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def options(written: str) -> dict[str, str]:
    return dict(login_module(f"{PLAIN} required {written};").options)


def problem(written: str) -> str:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the callers check the message
        login_module(written)
    return str(caught.value)


def test_the_login_module_is_recognised_in_any_package() -> None:
    assert login_module(f"{PLAIN} required;") == LoginModule(name="PlainLoginModule", options={})
    assert login_module(f"kafkashaded.{PLAIN} required;").name == "PlainLoginModule"
    assert login_module("PlainLoginModule REQUIRED ;").name == "PlainLoginModule"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        pytest.param('username="alice" password="secret"', {"username": "alice", "password": "secret"}, id="two"),
        pytest.param("username='a\"b'", {"username": 'a"b'}, id="single quotes"),
        pytest.param("username = kafka-client.1_$", {"username": "kafka-client.1_$"}, id="no quotes"),
        pytest.param('password="a;b=c /* d */ //e"', {"password": "a;b=c /* d */ //e"}, id="signs in quotes"),
        pytest.param(r'password="a\"b\\c"', {"password": 'a"b\\c'}, id="escapes"),
        pytest.param(r'password="\t\n\r\q"', {"password": "\t\n\rq"}, id="letters escaped"),
        pytest.param(r'password="\101\60\0\777"', {"password": "A0\0?7"}, id="octal"),
        pytest.param('password="pässwörd \u00ad€"', {"password": "pässwörd \u00ad€"}, id="not ASCII"),
        pytest.param('password=""', {"password": ""}, id="empty"),
        pytest.param('"user_alice"="x"', {"user_alice": "x"}, id="name in quotes"),
        pytest.param(
            '\n username="a" // who\n /* and\n what */ password="b"\n',
            {"username": "a", "password": "b"},
            id="comments",
        ),
        pytest.param('username="a" username="b"', {"username": "b"}, id="the last one counts"),
    ],
)
def test_options_are_parsed_as_by_java(written: str, read: dict[str, str]) -> None:
    assert options(written) == read


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "expected the class of a login module at 0"),
        ("secret", "expected the word 'required' after the login module at 6"),
        ("Module secret;", "expected the word 'required' at 7"),
        ("Module required", "expected a semicolon at the end, at 15"),
        ('Module required password="secret"', "expected a semicolon at the end, at 33"),
        ("Module required secret;", "expected '=' at 22"),
        ("Module required password=;", "expected the option's value at 25"),
        ("Module required =secret;", "expected the name of an option at 16"),
        ('Module required password="secret;', "the quote that begins at 25 is not closed"),
        ('Module required password="secret\n";', "the quote that begins at 25 is not closed"),
        ("Module required password=secret!;", 'the character at 31 must be inside quotes: "..."'),
        ("Module required password=a/secret;", "the character at 26 must be inside quotes"),
        ("Module required; Module required;", "unexpected text at 17, after the semicolon"),
    ],
)
def test_a_syntax_error_is_reported_by_position_and_never_quoted(written: str, said: str) -> None:
    assert said in problem(written)
    assert "secret" not in problem(written)


def test_the_repr_shows_no_options() -> None:
    assert "secret" not in repr(login_module('Module required password="secret";'))


@given(st.dictionaries(st.from_regex(r"[a-zA-Z][\w.$-]{0,20}", fullmatch=True), st.text(), max_size=5))
def test_a_quoted_value_is_read_back_unchanged(values: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + escaped.replace("\n", "\\n").replace("\r", "\\r") + '"'

    assert options(" ".join(f"{name}={quoted(value)}" for name, value in values.items())) == values


@given(st.text(st.sampled_from("ab;=\"'\\/*\n 07M"), max_size=60))
def test_any_text_is_read_or_refused(written: str) -> None:
    for text in (written, f"Module required {written}", f"Module required a={written};"):
        with contextlib.suppress(ValueError):
            login_module(text)
