"""The serializers that come with the core."""

from __future__ import annotations

import pytest

from ottla.interfaces import Serializer
from ottla.plugins.serializers import bytes as bytes_plugin
from ottla.plugins.serializers import string as string_plugin


@pytest.fixture
def of_bytes() -> Serializer:
    return bytes_plugin.ottla_serializer(is_key=False)


@pytest.fixture
def of_strings() -> Serializer:
    return string_plugin.ottla_serializer(is_key=True)


@pytest.mark.parametrize("data", [b"ab", bytearray(b"ab"), memoryview(b"ab"), memoryview(b"a_b_")[::2]])
def test_bytes_of_any_class_become_bytes(of_bytes: Serializer, data: object) -> None:
    serialized = of_bytes.serialize("t", data, [])

    assert serialized == b"ab"
    assert type(serialized) is bytes


def test_bytes_are_not_copied(of_bytes: Serializer) -> None:
    data = b"x" * 100

    assert of_bytes.serialize("t", data, []) is data


def test_mutable_values_are_copied(of_bytes: Serializer) -> None:
    data = bytearray(b"ab")
    serialized = of_bytes.serialize("t", data, [])
    data[0] = 0

    assert serialized == b"ab"


@pytest.mark.parametrize("data", ["text", 5, [1], object()])
def test_a_value_that_is_not_bytes_is_an_error_with_a_remedy(of_bytes: Serializer, data: object) -> None:
    with pytest.raises(TypeError, match=r"a value for topic 't' is .*value\.encode\(\).*value\.serializer=string"):
        of_bytes.serialize("t", data, [])


def test_an_error_about_a_key_names_the_key() -> None:
    with pytest.raises(TypeError, match=r"a key for topic 't' is str.*key\.serializer=string"):
        bytes_plugin.ottla_serializer(is_key=True).serialize("t", "text", [])


def test_strings_become_utf8(of_strings: Serializer) -> None:
    assert "Ottla ž €".encode() == of_strings.serialize("t", "Ottla ž €", [])


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"ab", r"^it is bytes, not str; set key\.serializer=bytes to send bytes as they are$"),
        (5, r"^it is int, not str; make it a string first$"),
    ],
)
def test_a_value_that_is_not_a_string_is_an_error_with_a_remedy(
    of_strings: Serializer, data: object, error: str
) -> None:
    with pytest.raises(TypeError, match=error):
        of_strings.serialize("t", data, [])


def test_a_lone_surrogate_is_refused(of_strings: Serializer) -> None:
    with pytest.raises(ValueError, match="surrogates"):
        of_strings.serialize("t", "\ud800", [])


@pytest.mark.parametrize("serializer", ["of_bytes", "of_strings"])
def test_none_remains_none(serializer: str, request: pytest.FixtureRequest) -> None:
    assert request.getfixturevalue(serializer).serialize("t", None, []) is None
