"""Passwords that change while a producer runs: its next logins use the new one, and no record is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker

from ottla import Producer
from ottla_testkit.simulation import SimulatedLogin

TIMEOUT = 20.0


class Changing:
    """A broker that lets ann in by PLAIN, and whatever her program reads her password from."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "kafka.properties"
        self.login = SimulatedLogin(users={}, mechanisms=["PLAIN"])
        self.broker = SocketBroker.secured(self.login)
        self.asked = 0
        self.change("one")

    def change(self, password: str) -> None:
        """A new password, and every connection ends, as when a broker restarts."""
        self.password = password
        self.login.users = {"ann": password}
        self.file.write_text(f"user=ann\npassword={password}\n")
        for connection in self.broker.sockets:
            connection.shutdown(2)
        self.broker.sockets.clear()

    def pair(self) -> tuple[str, str]:
        self.asked += 1
        return "ann", self.password


WAYS: Mapping[str, Callable[[Changing], Mapping[str, Any]]] = {
    "a function for the password": lambda it: {"sasl.username": "ann", "sasl.password": lambda: it.password},
    "a function for both": lambda it: {"sasl.credentials.provider": it.pair},
    "a function for Java's string": lambda it: {
        "sasl.jaas.config": lambda: f'PlainLoginModule required username="ann" password="{it.password}";'
    },
    "references": lambda it: {
        "config.providers": "file",
        "config.providers.file.param.allowed.paths": str(it.file.parent),
        "sasl.username": f"${{file:{it.file}:user}}",
        "sasl.password": f"${{file:{it.file}:password}}",
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_changed_password_needs_no_new_producer(tmp_path: Path, way: str) -> None:
    changing = Changing(tmp_path)
    with changing.broker.serving() as servers:
        settings = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.allow.cleartext.credentials": "true",
            "linger.ms": 0,
            **WAYS[way](changing),
        }
        with Producer(settings) as producer:
            for password in ("one", "two", "three"):
                changing.change(password)
                assert producer.send("t", password.encode()).result(TIMEOUT).partition == 0

    assert [record.value for record in changing.broker.broker.cluster.topics["t"].log[0]] == [b"one", b"two", b"three"]


def test_functions_are_called_for_each_connection(tmp_path: Path) -> None:
    changing = Changing(tmp_path)
    with changing.broker.serving() as servers:
        settings = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.allow.cleartext.credentials": "true",
            "sasl.credentials.provider": changing.pair,
        }
        with Producer(settings) as producer:
            assert changing.asked == 0
            producer.send("t", b"x").result(TIMEOUT)

    assert changing.asked == changing.broker.connections
