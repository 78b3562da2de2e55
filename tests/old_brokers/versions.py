"""The brokers that these tests run on, and the features of each."""

from __future__ import annotations

import os

import pytest
from _pytest.mark.structures import ParameterSet

from ottla_testkit.java.release import release

VARIABLE = "OTTLA_OLD_BROKERS"
SHORT_FORM = "0.10.2.2,2.8.2,3.9.1"
VERSIONS = [version.strip() for version in (os.environ.get(VARIABLE) or SHORT_FORM).split(",")]

GATES = "0.10.2.2"
"""The version that `tox` has; the broker of each is started for these tests alone."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GATES_CODECS = ("none", "lz4")
MORE_VERSIONS = pytest.mark.thorough("the gate has the oldest broker and two codecs")


def one_of(version: str) -> ParameterSet:
    """A version as a parameter."""
    return pytest.param(version, marks=[] if version == GATES else [MORE_VERSIONS])


def known_codecs(version: str) -> list[str]:
    """The codecs that a broker can store; zstd came with 2.1."""
    return [codec for codec in CODECS if codec != "zstd" or release(version) >= (2, 1)]


def magic(version: str) -> int:
    """The record format in which a broker stores what comes in that format."""
    return 2 if release(version) >= (0, 11) else 1


def on_brokers(*, since: str = "0.10.2", before: str = "99.0") -> pytest.MarkDecorator:
    """Run a test once on each chosen broker from one version to before another."""
    chosen = [version for version in VERSIONS if release(since) <= release(version) < release(before)]
    return pytest.mark.parametrize("old_kafka", [one_of(version) for version in chosen], indirect=True)


with_each_codec = pytest.mark.parametrize(
    ("old_kafka", "codec"),
    [
        pytest.param(version, codec, marks=[] if version == GATES and codec in GATES_CODECS else [MORE_VERSIONS])
        for version in VERSIONS
        for codec in known_codecs(version)
    ],
    indirect=["old_kafka"],
)
