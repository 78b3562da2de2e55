"""What the suite needs to know of this mechanism, also for `ottla plugins check`: a broker as AWS' own.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla_authenticator_msk_iam_example.credentials import ACCESS_KEY, PROVIDER, SECRET_KEY
from ottla_testkit.conformance import AuthenticatorConformance, SaslBroker

SECRET: Final = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"

_KEYS: Final[Mapping[str, Any]] = {ACCESS_KEY: "AKID", SECRET_KEY: SECRET}


class AwsBroker:
    """Gives a receipt for a request that is signed with one access key, or with any; signatures only AWS can check."""

    def __init__(self, access_key: str) -> None:
        self.satisfied = False
        self._access_key = access_key

    def answer(self, data: bytes) -> bytes:
        """The receipt."""
        request = json.loads(data)
        if request["version"] != "2020_10_22" or not request["x-amz-credential"].startswith(self._access_key):
            raise ValueError("somebody else's request")
        self.satisfied = True
        return json.dumps({"version": "2020_10_22", "request-id": "1"}).encode()


class MskIamConformance(AuthenticatorConformance):
    """Every promise of a mechanism."""

    secrets = (SECRET,)
    host = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"
    settings: ClassVar[Mapping[str, Any]] = _KEYS

    @staticmethod
    def settings_for(given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keys of AWS' examples, where nobody gives better ones."""
        return given if {*_KEYS, PROVIDER} & given.keys() else {**given, **_KEYS}

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return lambda: AwsBroker(self.settings.get(ACCESS_KEY, ""))
