"""The mechanism keeps the whole contract, at a broker that verifies the request as AWS' own does."""

from __future__ import annotations

import pytest

from ottla.interfaces import Mechanism
from ottla_authenticator_msk_iam_example import Credentials, MskIamMechanism
from ottla_authenticator_msk_iam_example.conformance import SECRET, MskIamConformance
from ottla_testkit.conformance import plugin_context


class TestMskIam(MskIamConformance):
    @pytest.fixture
    def mechanism(self) -> Mechanism:
        keys = Credentials(access_key="AKID", secret_key=SECRET, session_token=None)
        return MskIamMechanism(lambda: keys, region=None, context=plugin_context())
