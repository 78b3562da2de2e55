"""One login by AWS_MSK_IAM: a signed request as JSON, and a receipt."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from typing import Final

from ottla.errors import AuthenticationError
from ottla.interfaces import Step
from ottla_authenticator_msk_iam_example.signature import Credentials, presigned

VERSION: Final = "2020_10_22"
USER_AGENT: Final = "ottla-authenticator-msk-iam-example"


class MskIamExchange:
    """It takes credentials and time when it starts: a signature is valid for a quarter of an hour only."""

    def __init__(
        self,
        host: str,
        *,
        region: str | None,
        credentials: Callable[[], Credentials],
        clock: Callable[[], datetime.datetime],
    ) -> None:
        self._host = host
        self._region = region
        self._credentials = credentials
        self._clock = clock

    def start(self) -> bytes:
        """Return the request with lower-case names, as AWS' own library writes it."""
        if self._region is None:
            raise AuthenticationError(f"aws.msk.region is needed: the broker's name {self._host!r} does not say it")
        query = presigned(self._credentials(), host=self._host, region=self._region, at=self._clock())
        said = {"version": VERSION, "host": self._host, "user-agent": USER_AGENT}
        return json.dumps(said | {name.lower(): value for name, value in query.items()}).encode()

    def challenge(self, data: bytes) -> Step:
        """Return the final step when the broker sends the receipt; a refused client gets an error instead."""
        try:
            receipt = json.loads(data)
            known = receipt["version"] == VERSION
        except (ValueError, LookupError, TypeError, RecursionError):
            known = False
        if not known:
            raise AuthenticationError(f"the broker answered AWS_MSK_IAM with {len(data)} bytes, which is no receipt")
        return Step(reply=None, done=True)
