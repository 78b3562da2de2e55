"""The encoder in pure Python keeps the whole contract, its sizes and facts included."""

from __future__ import annotations

import pytest

from ottla.interfaces import RecordEncoder
from ottla.plugins.registry import Registry
from ottla_testkit.conformance import RecordEncoderConformance

pytestmark = pytest.mark.unmeasured


class TestPython(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        encoder: RecordEncoder = Registry().plugin("encoder", "python").create({})
        return encoder
