"""Our error codes are Kafka's: `error_codes.json` is what the Java client of 4.4.0 has in its `Errors`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from ottla.errors import ErrorCode, error_code

JAVAS: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "vectors" / "error_codes.json").read_text())


@pytest.mark.parametrize("java", JAVAS, ids=lambda java: java["name"])
def test_a_code_has_the_name_and_flags_of_java(java: dict[str, Any]) -> None:
    ours = error_code(java["code"])

    assert (ours.value, ours.name) == (java["code"], java["name"])
    assert ours.retriable is java["retriable"]
    assert ours.stale_metadata is java["invalid_metadata"]


def test_there_are_no_other_codes() -> None:
    of_kafka = {java["code"] for java in JAVAS}
    others = [code.name for code in ErrorCode if code.value not in of_kafka]

    assert not others, "codes of a later Kafka belong into vectors/error_codes.json as well, with its version above"
    assert len(ErrorCode) == len(of_kafka)


def test_every_code_has_a_meaning_in_a_sentence() -> None:
    for code in ErrorCode:
        assert code.meaning[0].isupper(), code.name
        assert code.meaning.endswith("."), code.name
