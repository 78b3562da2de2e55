"""The native hash is the core's hash."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.plugins.partitioners.murmur2_hash import murmur2 as in_python
from ottla_accel.murmur2 import murmur2


@given(key=st.binary(max_size=300))
def test_every_key_has_the_hash_of_the_core(key: bytes) -> None:
    assert murmur2(key) == in_python(key)


@pytest.mark.parametrize("size", range(20))
def test_bytes_above_127_are_unsigned_at_every_index(size: int) -> None:
    assert murmur2(b"\xff" * size) == in_python(b"\xff" * size)


def test_any_buffer_has_a_hash() -> None:
    assert murmur2(bytearray(b"key")) == murmur2(memoryview(b"key")) == in_python(b"key")


def test_text_has_no_hash() -> None:
    with pytest.raises(TypeError):
        murmur2("key")  # type: ignore[arg-type]
