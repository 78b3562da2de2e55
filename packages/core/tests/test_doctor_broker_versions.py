"""Versions of Kafka, guessed from what real brokers of that version answered."""

from __future__ import annotations

import pytest

from ottla.doctor.broker_versions import MARKS, release

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID = 0, 1, 2, 3, 19, 22

# The highest versions of Produce, Fetch, ListOffsets, Metadata, CreateTopics and InitProducerId.
ANSWERS = {
    "0.10.2": (2, 3, 1, 2, 1, None),
    "0.11": (3, 5, 2, 4, 2, 0),
    "1.1": (5, 7, 2, 5, 2, 0),
    "2.0": (6, 8, 3, 6, 3, 1),
    "2.8": (9, 12, 6, 11, 7, 4),
    "3.9": (11, 17, 9, 12, 7, 5),
}


@pytest.mark.parametrize(("version", "answer"), ANSWERS.items())
def test_the_apiversions_response_of_a_real_broker_gives_its_version(
    version: str, answer: tuple[int | None, ...]
) -> None:
    keys = (PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS, INIT_PRODUCER_ID)
    offered = {key: (0, highest) for key, highest in zip(keys, answer, strict=True) if highest is not None}

    assert release(offered) == f"about Kafka {version}"


def test_the_newest_version_is_reported_as_possibly_newer() -> None:
    assert release({0: (0, 13), 1: (4, 18), 2: (1, 11)}) == f"Kafka {MARKS[0].release} or newer"


def test_a_broker_with_few_or_no_requests_is_described() -> None:
    assert release({0: (0, 1)}) == "a broker older than Kafka 0.10"
    assert release({}) == "a broker that names no request"


def test_releases_are_listed_newest_first() -> None:
    releases = [tuple(int(part) for part in mark.release.split(".")) for mark in MARKS]

    assert releases == sorted(set(releases), reverse=True)
