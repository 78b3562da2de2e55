"""A broker like AWS' own for the conformance suite of this mechanism; `ottla plugins check` uses it, too.

It needs ottla-testkit, so no other module may import it.
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
    """Accept a request that is signed with one access key, or with any; only AWS can verify signatures."""

    def __init__(self, access_key: str) -> None:
        self.satisfied = False
        self._access_key = access_key

    def answer(self, data: bytes) -> bytes:
        """Return the receipt."""
        request = json.loads(data)
        if request["version"] != "2020_10_22" or not request["x-amz-credential"].startswith(self._access_key):
            raise ValueError("the request has another access key or version")
        self.satisfied = True
        return json.dumps({"version": "2020_10_22", "request-id": "1"}).encode()


class MskIamConformance(AuthenticatorConformance):
    """All requirements for a mechanism."""

    secrets = (SECRET,)
    host = "b-1.demo.abc123.c2.kafka.eu-central-1.amazonaws.com"
    settings: ClassVar[Mapping[str, Any]] = _KEYS

    @staticmethod
    def settings_for(given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings, with the access key of AWS' examples if they have none."""
        return given if {*_KEYS, PROVIDER} & given.keys() else {**given, **_KEYS}

    @pytest.fixture
    def broker(self) -> Callable[[], SaslBroker]:
        return lambda: AwsBroker(self.settings.get(ACCESS_KEY, ""))
