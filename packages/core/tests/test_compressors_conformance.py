"""The built-in codecs keep the whole contract."""

from __future__ import annotations

import pytest

from ottla.interfaces import Compressor
from ottla.plugins.registry import Registry, make_alone
from ottla_testkit.conformance import CompressorConformance

pytestmark = pytest.mark.unmeasured


def made(name: str) -> Compressor:
    """A built-in codec, through the same entry point as a third-party one, with its defaults."""
    registry = Registry()
    compressor: Compressor = make_alone(registry.plugin("compressor", name), {}, registry=registry)
    return compressor


class TestGzip(CompressorConformance):
    levels = (-1, 1, 9)

    @pytest.fixture
    def compressor(self) -> Compressor:
        return made("gzip")


class TestLz4(CompressorConformance):
    levels = (1, 9, 17)

    @pytest.fixture
    def compressor(self) -> Compressor:
        return made("lz4")


class TestSnappy(CompressorConformance):
    @pytest.fixture
    def compressor(self) -> Compressor:
        return made("snappy")


class TestZstd(CompressorConformance):
    levels = (-7, 1, 3, 19)

    @pytest.fixture
    def compressor(self) -> Compressor:
        return made("zstd")
