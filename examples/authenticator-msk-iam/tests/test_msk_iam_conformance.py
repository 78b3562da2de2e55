"""The mechanism keeps the whole contract, at a broker that looks at the request as AWS' own does."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from ottla.interfaces import Mechanism
from ottla_authenticator_msk_iam_example import Credentials, MskIamMechanism
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker

SECRET = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"


class AwsBroker:
    """Gives a receipt for a request of ours."""

    satisfied = False

    def answer(self, data: bytes) -> bytes:
        request = json.loads(data)
        if request["version"] != "2020_10_22" or "AKID" not in request["x-amz-credential"]:
            raise ValueError("somebody else's request")
        self.satisfied = True
        return json.dumps({"version": "2020_10_22", "request-id": "1"}).encode()


class TestMskIam(AuthenticatorConformance):
    secrets = (SECRET,)
    host = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"

    @pytest.fixture
    def mechanism(self) -> Mechanism:
        keys = Credentials(access_key="AKID", secret_key=SECRET, session_token=None)
        return MskIamMechanism(lambda: keys, region=None)

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return AwsBroker
