"""The signature is AWS' own: `presigned.json` was made by botocore, for these keys, hosts and this moment."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from ottla_authenticator_msk_iam_example import Credentials
from ottla_authenticator_msk_iam_example.signature import presigned

VECTORS = json.loads((Path(__file__).parent / "presigned.json").read_text())


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["region"])
def test_a_request_is_signed_as_botocore_signs_it(vector: dict[str, Any]) -> None:
    credentials = Credentials(
        access_key=vector["access_key"], secret_key=vector["secret_key"], session_token=vector["session_token"]
    )
    at = datetime.datetime.fromisoformat(vector["at"])

    assert presigned(credentials, host=vector["host"], region=vector["region"], at=at) == vector["query"]


def test_the_repr_shows_no_secret() -> None:
    shown = repr(Credentials(access_key="AKID", secret_key="s3cret", session_token="t0ken"))

    assert "AKID" in shown
    assert "s3cret" not in shown
    assert "t0ken" not in shown
