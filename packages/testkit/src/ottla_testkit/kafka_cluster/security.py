"""Listeners with encryption, authentication, or both; one node has all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from ottla_testkit.kafka_cluster.certificates import Certificates
from ottla_testkit.kafka_cluster.identity_server import IdentityServer
from ottla_testkit.kafka_cluster.node_settings import Setting
from ottla_testkit.processes.free_ports import HOST, free_ports

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

LISTENERS: Final[Mapping[str, str]] = {
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "PLAIN_ONLY": "SASL_PLAINTEXT",
}
"""Each listener's name and protocol. MUTUAL requires a client's certificate; EXPIRED and ELSEWHERE show a bad one."""

_LOGIN_MODULES: Final = "org.apache.kafka.common.security"


@attrs.define(kw_only=True)
class Security:
    """The parts of a secure cluster; `KafkaCluster(security=...)` starts one, of one node.

    *users* may log in with these passwords by PLAIN and SCRAM. With *identity*, brokers accept the tokens that it
    issues for OAUTHBEARER, which is not offered without. A session ends after *reauthentication_ms* unless it is
    renewed; with 0, it never ends.

    `certificates` holds the PEM files for clients and brokers, in *folder*: see `Certificates`. `ports` has the port of
    each listener; `KafkaCluster.listener` returns its address.
    """

    folder: Path
    users: Mapping[str, str] = attrs.field(repr=lambda users: str(sorted(users)))
    identity: IdentityServer | None = None
    reauthentication_ms: int = 0
    certificates: Certificates = attrs.field(init=False)
    ports: Mapping[str, int] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.certificates = Certificates(self.folder / "certificates")
        self.choose_ports()

    def choose_ports(self) -> None:
        """Choose a port that is free now for every listener, instead of ports that other processes may use."""
        self.ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))

    @property
    def mechanisms(self) -> Sequence[str]:
        """The SASL mechanisms of all listeners except PLAIN_ONLY."""
        return MECHANISMS if self.identity is not None else MECHANISMS[:-1]

    @property
    def jvm_options(self) -> Sequence[str]:
        """The system properties that a broker needs."""
        if self.identity is None:
            return ()
        return (f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.identity.keys_url}",)

    @property
    def format_options(self) -> Sequence[str]:
        """The options of `kafka-storage.sh format` that create the SCRAM users."""
        return [
            option
            for name, password in self.users.items()
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            for option in ("--add-scram", f'{mechanism}=[name="{name}",password="{password}"]')
        ]

    def broker_settings(self, settings: Mapping[str, Setting]) -> dict[str, Setting]:
        """Return a broker's settings with the secure listeners added to the plain one."""
        listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in self.ports.items())
        protocols = ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items())
        secure: dict[str, Setting] = {
            "listeners": f"{settings['listeners']},{listeners}",
            "advertised.listeners": f"{settings['advertised.listeners']},{listeners}",
            "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},{protocols}",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(self.mechanisms),
            "connections.max.reauth.ms": self.reauthentication_ms,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.broker),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.expired.ssl.keystore.location": str(self.certificates.expired),
            "listener.name.elsewhere.ssl.keystore.location": str(self.certificates.elsewhere),
            "listener.name.plain_only.sasl.enabled.mechanisms": "PLAIN",
        }
        for listener in ("sasl_plaintext", "sasl_ssl", "plain_only"):
            secure |= self._logins(f"listener.name.{listener}")
        return {**settings, **secure}

    def _logins(self, listener: str) -> dict[str, Setting]:
        passwords = " ".join(f'user_{name}="{password}"' for name, password in self.users.items())
        scram = f"{_LOGIN_MODULES}.scram.ScramLoginModule required;"
        logins: dict[str, Setting] = {
            f"{listener}.plain.sasl.jaas.config": f"{_LOGIN_MODULES}.plain.PlainLoginModule required {passwords};",
            f"{listener}.scram-sha-256.sasl.jaas.config": scram,
            f"{listener}.scram-sha-512.sasl.jaas.config": scram,
        }
        if self.identity is not None:
            package = f"{_LOGIN_MODULES}.oauthbearer"
            bearer = f"{listener}.oauthbearer"
            logins |= {
                f"{bearer}.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
                f"{bearer}.sasl.server.callback.handler.class": f"{package}.OAuthBearerValidatorCallbackHandler",
                f"{bearer}.sasl.oauthbearer.jwks.endpoint.url": self.identity.keys_url,
                f"{bearer}.sasl.oauthbearer.expected.audience": self.identity.audience,
                f"{bearer}.sasl.oauthbearer.expected.issuer": self.identity.issuer,
            }
        return logins
