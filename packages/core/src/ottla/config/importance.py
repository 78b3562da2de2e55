"""The importance that Java's producer gives its settings, as of Kafka 4.3."""

from __future__ import annotations

from typing import Final, Literal

from ottla.config.java_keys import JAVA_KEYS

Importance = Literal["high", "medium", "low"]

_HIGH: Final = frozenset(
    {
        "bootstrap.servers",
        "buffer.memory",
        "compression.type",
        "key.serializer",
        "retries",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "value.serializer",
    }
)

_MEDIUM: Final = frozenset(
    {
        "batch.size",
        "client.dns.lookup",
        "client.id",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "partitioner.class",
        "partitioner.ignore.keys",
        "receive.buffer.bytes",
        "request.timeout.ms",
        "sasl.client.callback.handler.class",
        "sasl.jaas.config",
        "sasl.kerberos.service.name",
        "sasl.login.callback.handler.class",
        "sasl.login.class",
        "sasl.mechanism",
        "sasl.oauthbearer.assertion.algorithm",
        "sasl.oauthbearer.assertion.claim.aud",
        "sasl.oauthbearer.assertion.claim.iss",
        "sasl.oauthbearer.assertion.claim.jti.include",
        "sasl.oauthbearer.assertion.claim.sub",
        "sasl.oauthbearer.assertion.file",
        "sasl.oauthbearer.assertion.private.key.file",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.client.credentials.client.id",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.jwks.endpoint.url",
        "sasl.oauthbearer.jwt.retriever.class",
        "sasl.oauthbearer.jwt.validator.class",
        "sasl.oauthbearer.scope",
        "sasl.oauthbearer.token.endpoint.url",
        "security.protocol",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "ssl.enabled.protocols",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.truststore.type",
    }
)


def importance_of(key: str) -> Importance | None:
    """The importance of a setting; None if Java's producer does not have it."""
    if key in _HIGH:
        return "high"
    if key in _MEDIUM:
        return "medium"
    return "low" if key in JAVA_KEYS else None
