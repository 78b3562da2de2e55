"""One error lists every problem of a configuration, also those of files and of the login."""

from __future__ import annotations

from typing import Any

import pytest

from ottla import check_config
from ottla.errors import ConfigError

SECURE = {"bootstrap.servers": "kafka:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
NO_FILE = "ssl.truststore.location=/nowhere: it cannot be read: No such file or directory"
NO_LOGIN = "sasl.mechanism=PLAIN needs sasl.username and sasl.password, and neither may be empty"


def problems(settings: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        check_config(settings)
    return caught.value.problems


def test_files_and_the_login_are_checked_while_other_keys_are_wrong() -> None:
    wrong = {**SECURE, "ssl.truststore.location": "/nowhere", "compression.type": "lz5", "linger.ms": "soon"}

    linger, codec, *rest = problems(wrong)
    assert "linger.ms" in linger
    assert "no compressor is named 'lz5'" in codec
    assert rest == [NO_FILE, NO_LOGIN]


def test_the_login_is_checked_while_a_file_is_missing() -> None:
    assert problems({**SECURE, "ssl.truststore.location": "/nowhere"}) == (NO_FILE, NO_LOGIN)


def test_names_of_another_client_count_for_files_and_the_login() -> None:
    given = {"bootstrap_servers": "kafka:9093", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    theirs = {"sasl_plain_username": "alice", "sasl_plain_password": "wonder", "ssl_cafile": "/nowhere"}
    with pytest.raises(ConfigError) as caught:
        check_config(**given, **theirs)

    assert caught.value.problems[-1] == NO_FILE
    assert len(caught.value.problems) == len(theirs) + 1
    assert "wonder" not in str(caught.value)


def test_a_plugin_whose_value_was_refused_is_not_asked_for_more() -> None:
    [problem] = problems({**SECURE, "sasl.username": "alice", "sasl.password": "wonder", "ssl.protocol": "SSLv2"})

    assert "ssl.protocol" in problem


def test_a_missing_plugin_is_listed_with_the_problem_of_a_file() -> None:
    missing, file = problems(
        {
            "bootstrap.servers": "kafka:9093",
            "security.protocol": "SSL",
            "ssl.truststore.location": "/nowhere",
            "compression.type": "lz5",
        }
    )

    assert "no compressor is named 'lz5'" in missing
    assert file == NO_FILE
