"""No record takes more bytes on the wire than `send` compares with `max.request.size` before it queues the record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.accumulator.batch import size_of
from ottla.interfaces import Header
from ottla.recordbatch.objects import ObjectColumns
from ottla.recordbatch.record_limits import RECORD_OVERHEAD, TIMESTAMP_MAX
from ottla.recordbatch.sealed_records import finish

pytestmark = pytest.mark.unmeasured

parts = st.none() | st.binary(max_size=200) | st.builds(bytes, st.sampled_from((63, 64, 8191, 8192, 1_048_576)))
headers = st.lists(st.tuples(st.text(max_size=90), st.none() | st.binary(max_size=90)), max_size=70)


@pytest.mark.parametrize("magic", [0, 1, 2])
@given(key=parts, value=parts, headers=headers, timestamp_ms=st.integers(0, TIMESTAMP_MAX))
@settings(deadline=None)
def test_a_single_record_is_never_larger_than_the_size_that_is_checked(
    magic: int, key: bytes | None, value: bytes | None, headers: list[Header], timestamp_ms: int
) -> None:
    headers = headers if magic == 2 else []
    columns = ObjectColumns(1)
    columns.append(key, value, headers, timestamp_ms)

    actual = finish(columns.encode(magic), magic=magic, compressor=None).wire_size

    assert actual <= size_of((key, value, headers, timestamp_ms, None)) + RECORD_OVERHEAD


def test_a_header_name_that_will_be_refused_has_a_size_too() -> None:
    assert size_of((None, None, [("\ud800", None)], None, None)) == 3 + 10
