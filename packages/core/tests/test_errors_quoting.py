"""Text from outside, as errors, logs and terminals show it."""

from __future__ import annotations

import base64
import gc
import html
import json
import unicodedata
import urllib.parse
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import Secrets, printable, quoted
from ottla.errors.quoting import LONGEST, STARS


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "an ordinary sentence, with 'quotes' and back\\slashes",
            "an ordinary sentence, with 'quotes' and back\\slashes",
        ),
        ("žluťoučký kůň, こんにちは, हिन्दी", "žluťoučký kůň, こんにちは, हिन्दी"),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("one\ntwo\r\nthree\x85four\u2028five\u2029six", "one\\ntwo\\r\\nthree\\x85four\\u2028five\\u2029six"),
        ("gpj.\u202eexe \u2066isolated\u2069", "gpj.\\u202eexe \\u2066isolated\\u2069"),
        ("ze\u200bro wi\u200ddth\ufeff", "ze\\u200bro wi\\u200ddth\\ufeff"),
        ("\xa0no-break\u3000wide\tspaces", "\\xa0no-break\\u3000wide\\tspaces"),
        ("\ud800 alone", "\\ud800 alone"),
        ("\ue000 private \U000e0041 tag", "\\ue000 private \\U000e0041 tag"),
        ("\u0301 lone mark", "\\u0301 lone mark"),
        ("e\u0301 and e" + "\u0301" * 5, "e\u0301 and e" + "\u0301" * 3 + "\\u0301" * 2),
        ("blank\u3164\u2800\ufe0f", "blank\\u3164\\u2800\\ufe0f"),
        (b"bytes \xc3\xa9 \xff\x00", "bytes é \\xff\\x00"),
        ("", ""),
    ],
)
def test_control_and_invisible_characters_are_escaped(text: str | bytes, shown: str) -> None:
    assert shown == printable(text)


@given(st.text() | st.binary())
def test_any_text_becomes_one_printable_bounded_line(text: str | bytes) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown) <= LONGEST
    assert "Cf" not in set(map(unicodedata.category, shown))


@pytest.mark.parametrize("text", ["x" * 301, "x" * 10**7, "\n" * 200, b"\xff" * 10**6, "\U000e0041" * 31])
def test_a_long_text_is_cut_with_its_escapes_counted(text: str | bytes) -> None:
    shown = printable(text)
    assert len(shown) == LONGEST
    assert shown.endswith("...")


def test_a_text_of_exactly_300_characters_is_whole() -> None:
    assert printable("x" * 300) == "x" * 300


def test_quotation_marks_are_chosen_by_the_content_of_the_text() -> None:
    assert quoted("it is") == "'it is'"
    assert quoted("it's") == '"it\'s"'


SECRET = "hunter2/SECRET+ä"


@pytest.mark.parametrize(
    "echo",
    [
        SECRET,
        repr(SECRET),
        SECRET.encode().decode("latin-1"),
        urllib.parse.quote(SECRET),
        urllib.parse.quote_plus(SECRET),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"\0u\0" + SECRET.encode()).decode(),
        base64.b64encode(b"\0us\0" + SECRET.encode() + b"\1").decode(),
        base64.urlsafe_b64encode(b"\0use\0" + SECRET.encode()).decode(),
    ],
)
def test_an_echoed_secret_is_masked_in_each_form(echo: str) -> None:
    shown = printable(f"wrong: {echo}!", secrets=(SECRET,))
    assert "***" in shown
    for length in range(8, len(echo)):
        # At most the digits that its neighbours share with it are left.
        assert not any(echo[at : at + length] in shown for at in range(len(echo) - length))


AWKWARD = 'hunter2/"SECRET"\\<ä😀>'


@pytest.mark.parametrize(
    "echo",
    [
        json.dumps(AWKWARD),
        json.dumps(AWKWARD, ensure_ascii=False),
        json.dumps(AWKWARD).replace("/", "\\/"),
        json.dumps({"error": json.dumps({"detail": AWKWARD})}),
        AWKWARD.encode("unicode_escape").decode(),
        repr(AWKWARD.encode()),
        html.escape(AWKWARD),
        AWKWARD.encode("ascii", "xmlcharrefreplace").decode(),
        urllib.parse.quote(AWKWARD, safe="").lower().replace("secret", "SECRET"),
        "".join(f"%{byte:02x}" for byte in AWKWARD.encode()),
        AWKWARD.encode().hex(":"),
        AWKWARD.encode().hex(" ").upper(),
        base64.encodebytes(b"x" * 50 + AWKWARD.encode()).decode(),
    ],
)
def test_a_secret_echoed_with_escapes_is_masked(echo: str) -> None:
    shown = printable(f"wrong: {echo}!", secrets=(AWKWARD,))
    assert "***" in shown
    assert not any(form in shown for form in ("SECRET", echo[:20], echo[-20:]))


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le", "utf-16-be"])
def test_a_secret_in_another_encoding_is_masked(encoding: str) -> None:
    assert printable("no pässword".encode(encoding), secrets=("pässword",)) == "***"


def test_other_escapes_are_shown_unchanged() -> None:
    text = '{"a": "\\u00e4\\n", "b": "100%25 &amp; more"}'
    assert printable(text, secrets=(AWKWARD,)) == text


def test_an_escaped_secret_at_the_truncation_point_is_masked_whole() -> None:
    assert printable("x" * 290 + "".join(f"%{byte:02x}" for byte in b"opensesame"), secrets=("opensesame",)) == "***"


def test_a_secret_is_masked_everywhere_while_its_owner_lives() -> None:
    kept = Secrets("opensesame")
    assert quoted("it was opensesame") == "'it was ***'"
    assert "opensesame" not in repr(kept)
    del kept
    gc.collect()
    assert quoted("it was opensesame") == "'it was opensesame'"


def test_a_secret_inside_a_longer_one_leaves_no_remainder() -> None:
    assert printable("opensesame42 opensesame", secrets=("opensesame", "opensesame42")) == "*** ***"


def test_a_secret_at_the_truncation_point_is_masked_whole() -> None:
    shown = printable("x" * 295 + "opensesame", secrets=("opensesame",))
    assert shown == "x" * 295 + "***"
    assert printable("opensesame" * 100_000, secrets=("opensesame",)).strip("*.") == ""


def test_a_secret_at_the_end_of_the_input_is_masked_whole() -> None:
    long_secret = "s3cr3t-" * 200
    assert "s3cr3t" not in printable(" " * 10 + long_secret * 60, secrets=(long_secret,))


def test_an_ottla_message_that_contains_a_password_stays_whole() -> None:
    kept = Secrets("wrong")
    assert printable("the credentials may be wrong", hide=False) == "the credentials may be wrong"
    assert printable("\x1b", hide=False) == "\\x1b"
    del kept


def test_an_empty_secret_masks_nothing() -> None:
    kept = Secrets("", b"")
    assert printable("a text", secrets=("",)) == "a text"
    assert repr(kept) == "Secrets()"


def test_secrets_of_dead_owners_are_shown_and_no_code_runs() -> None:
    secrets = Secrets("hunter2-the-second")
    [reference] = weakref.getweakrefs(secrets)
    assert reference.__callback__ is None  # where a Ctrl-C would be swallowed
    assert printable("hunter2-the-second") == STARS

    del secrets
    gc.collect()  # PyPy does not count references

    assert printable("hunter2-the-second") == "hunter2-the-second"
    kept = [Secrets(f"another secret {number}") for number in range(3)]
    assert printable("another secret 1") == STARS
    assert kept


def test_secrets_may_be_made_while_others_are_being_made() -> None:
    kept = [Secrets(f"secret {number}") for number in range(20)]
    spare = [(number, number) for number in range(5_000)]  # so that another pair is new memory, which may start the gc
    threshold = gc.get_threshold()

    def make(_phase: str, _info: dict[str, int]) -> None:
        kept.append(Secrets("made by a finalizer, or by another thread meanwhile"))

    gc.callbacks.append(make)
    gc.set_threshold(1)
    try:
        kept.append(Secrets("the last one"))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(make)

    assert spare
    assert printable("the last one") == STARS
