"""The encoder in C keeps the whole contract."""

from __future__ import annotations

import pytest

from ottla.interfaces import RecordEncoder
from ottla_accel.plugin import ottla_encoder
from ottla_testkit.conformance import RecordEncoderConformance

pytestmark = pytest.mark.unmeasured


class TestNative(RecordEncoderConformance):
    @pytest.fixture
    def encoder(self) -> RecordEncoder:
        return ottla_encoder()
