"""Properties files are read as Java reads them."""

from __future__ import annotations

import pytest

from ottla.config.properties import read_properties


@pytest.mark.parametrize(
    ("content", "entries"),
    [
        (b"acks=all", {"acks": "all"}),
        (b"acks = all \nlinger.ms:5\nretries 3", {"acks": "all ", "linger.ms": "5", "retries": "3"}),
        (b"  # a comment\n! another\n\n \t\nacks=1", {"acks": "1"}),
        (b"a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        (b"a=one,\\\n    two", {"a": "one,two"}),
        (b"a=one\\\n#two", {"a": "one#two"}),
        (b"a=one\\\\\nb=2", {"a": "one\\", "b": "2"}),
        (b"a=one\\", {"a": "one"}),
        (b"a=\\\n\\\n  x\nb=2", {"a": "x", "b": "2"}),
        (b"a=x=y:z", {"a": "x=y:z"}),
        (b"a\\ b\\:c=1", {"a b:c": "1"}),
        (b"a=\\u00e9\\t\\q", {"a": "\u00e9\tq"}),
        (b"a=\xe9", {"a": "\u00e9"}),
        (b"a=\\ud83d\\ude00 \\u00e9", {"a": "\U0001f600 \u00e9"}),
        (b"a=\\ude00\\ud83d", {"a": "\ude00\ud83d"}),
        (b"\\\n# a comment\na=1", {"a": "1"}),
        (b"\\\n\na=1", {"a": "1"}),
        (b"\\\na=1", {"a": "1"}),
        (b"key", {"key": ""}),
        (b"=value", {"": "value"}),
        (b"a=1\na=2", {"a": "2"}),
        (b"", {}),
        (
            b'sasl.jaas.config=org.Login required \\\n  username="u" \\\n  password="p#=";',
            {"sasl.jaas.config": 'org.Login required username="u" password="p#=";'},
        ),
    ],
)
def test_a_properties_file_is_read_as_by_java(content: bytes, entries: dict[str, str]) -> None:
    assert read_properties(content.decode("iso-8859-1")) == entries


def test_a_broken_escape_is_reported_by_line_and_without_the_value() -> None:
    with pytest.raises(ValueError, match=r"^line 3 has a \\u without four hexadecimal digits$"):
        read_properties("a=1\n# c\nssl.key.password=secr\\u12xt\nb=2")
