"""No secret is ever printed: the search that `conftest` makes after each test finds them in any form."""

from __future__ import annotations

import base64
import logging
from pathlib import Path

import pytest

from ottla.errors import ConfigError, OttlaError
from ottla_testkit.kafka_cluster.certificates import Certificates
from ottla_testkit.kafka_cluster.security import Security
from printed_secrets import ERRORS, WRONG_PASSWORD, key_lines, leaked
from secure_broker import ODD_PASSWORD, PASSWORD


@pytest.mark.parametrize("secret", [PASSWORD, ODD_PASSWORD, WRONG_PASSWORD])
def test_a_password_is_found_plain_and_encoded(secret: str) -> None:
    raw = secret.encode()
    for form in (secret, repr(raw), ascii(secret), raw.hex(), base64.b64encode(raw).decode()):
        found = leaked(f"could not log in with {form}")
        assert found is not None
        assert secret not in found


def test_a_private_key_is_found_by_its_header_and_by_any_line(tmp_path: Path) -> None:
    file = Certificates(tmp_path).alice
    lines = key_lines(tmp_path)

    assert leaked(file.read_text()) == "a private key"
    assert lines
    assert all(leaked(f"a line: {line}", keys=lines) == "a private key" for line in lines)


def test_text_without_a_secret_is_accepted() -> None:
    assert leaked("alice was refused: check sasl.username and sasl.password; -----BEGIN CERTIFICATE-----") is None


def test_the_repr_of_a_secure_cluster_has_no_password(tmp_path: Path) -> None:
    assert leaked(repr(Security(folder=tmp_path, users={"alice": PASSWORD}))) is None


def test_errors_and_debug_lines_are_searched(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("ottla.somewhere").debug("a line for the search")
    errors: list[OttlaError] = [ConfigError(["an error for the search"])]

    assert "a line for the search" in caplog.text
    assert str(errors[0]) in request.node.stash[ERRORS][-1]
