"""A broker with every secure listener, and the settings that get a producer in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import attrs

from ottla.config.allow_lists import URLS
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.identity_server import IdentityServer
from ottla_testkit.kafka_cluster.security import Security

PASSWORD: Final = "secret-of-alice"
ODD_PASSWORD: Final = "secret\u00adof-böb-Ⅸ"
"""With a soft hyphen and a numeral, which SASLprep would drop and change."""

USERS: Final = {"alice": PASSWORD, "bob": ODD_PASSWORD}


@attrs.frozen(kw_only=True)
class SecureBroker:
    """One broker, and how to get in."""

    kafka: KafkaCluster
    security: Security
    identity: IdentityServer

    def tls(self, listener: str = "SSL") -> dict[str, Any]:
        """Settings that trust the broker."""
        return {
            "bootstrap.servers": self.kafka.listener(listener),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.security.certificates.authority),
        }

    def mutual_tls(self) -> dict[str, Any]:
        """The same, with a certificate of ours."""
        alice = str(self.security.certificates.alice)
        return self.tls("MUTUAL") | {"ssl.keystore.type": "PEM", "ssl.keystore.location": alice}

    def sasl(self, mechanism: str, *, encrypted: bool) -> dict[str, Any]:
        """Settings that log alice in."""
        protocol = "SASL_SSL" if encrypted else "SASL_PLAINTEXT"
        settings = self.tls(protocol) if encrypted else {"bootstrap.servers": self.kafka.listener(protocol)}
        return settings | {"security.protocol": protocol, "sasl.mechanism": mechanism} | self.login(mechanism)

    def login(self, mechanism: str) -> dict[str, Any]:
        """The credentials for this mechanism."""
        if mechanism != "OAUTHBEARER":
            return {"sasl.username": "alice", "sasl.password": PASSWORD}
        return {
            "sasl.oauthbearer.token.endpoint.url": self.identity.token_url,
            "sasl.oauthbearer.client.credentials.client.id": "alice",
            "sasl.oauthbearer.client.credentials.client.secret": PASSWORD,
            "sasl.oauthbearer.scope": "produce",
        }


@contextmanager
def allowed(url: str) -> Iterator[None]:
    """Options may name this URL, here and in the programs that a test starts."""
    before = os.environ.get(URLS)
    os.environ[URLS] = url if before is None else f"{before},{url}"
    try:
        yield
    finally:  # in any order: a module's broker may end while one that began later goes on
        urls = os.environ[URLS].split(",")
        urls.remove(url)
        if urls:
            os.environ[URLS] = ",".join(urls)
        else:
            del os.environ[URLS]


@contextmanager
def secure_broker(
    folder: Path, *, lifetime_s: int = 3600, reauthentication_ms: int = 0, config: Mapping[str, Any] | None = None
) -> Iterator[SecureBroker]:
    """A broker of one's own; *folder* takes its certificates, and *config* are settings besides."""
    with ExitStack() as stack:
        identity = stack.enter_context(IdentityServer(lifetime_s=lifetime_s))
        security = Security(folder=folder, users=USERS, identity=identity, reauthentication_ms=reauthentication_ms)
        kafka = stack.enter_context(KafkaCluster(security=security, config=config))
        stack.enter_context(allowed(identity.token_url))
        yield SecureBroker(kafka=kafka, security=security, identity=identity)
