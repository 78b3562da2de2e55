"""Keys of other clients: librdkafka (confluent-kafka), kafka-python and aiokafka, and what to write in their place.

Keyword arguments of the Python clients are listed by their dotted names, as `key_names.merge` spells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import attrs


@attrs.frozen(eq=False, repr=False)
class OtherKey:
    """A key of another client. *name* is the key here, None if there is none; *remark* says what else differs.

    Without a *droppable* one, programs do the same.
    """

    name: str | None
    remark: str = ""
    droppable: bool = attrs.field(default=False, kw_only=True)

    @property
    def advice(self) -> str:
        """What to do besides writing `name`; empty if that is all."""
        if self.droppable:
            return f"leave it out; {self.remark}" if self.remark else "leave it out"
        return self.remark

    def hint(self) -> str:
        """What to do about this key, for the message that refuses it."""
        if self.name is None:
            return f"other clients have it; {self.advice}"
        return f"did you mean {self.name!r}?{f' {self.remark}' if self.remark else ''}"


def _dropped(remark: str = "") -> OtherKey:
    return OtherKey(None, remark, droppable=True)


def _all(keys: Iterable[str], other: OtherKey) -> dict[str, OtherKey]:
    return dict.fromkeys(keys, other)


_TOKEN: Final = (
    "It is called without arguments, and returns the token as text or an ottla_authenticator_sasl.Token, whose "
    "expires_at_ms is in milliseconds"
)
_PEM: Final = "One PEM file has the certificates and the key"

OTHER_CLIENTS: Final[Mapping[str, OtherKey]] = {
    # Batches, memory, retries
    "batch.num.messages": OtherKey("batch.size", "It is in bytes; a batch has no maximum number of records"),
    "compression.codec": OtherKey("compression.type"),
    "compression.level": OtherKey("compression.<type>.level", "the type is that of compression.type"),
    "max.batch.size": OtherKey("batch.size"),
    "max.in.flight": OtherKey("max.in.flight.requests.per.connection"),
    "message.max.bytes": OtherKey("max.request.size"),
    "message.send.max.retries": OtherKey("retries"),
    "message.timeout.ms": OtherKey("delivery.timeout.ms"),
    "queue.buffering.max.kbytes": OtherKey("buffer.memory", "It is in bytes"),
    "queue.buffering.max.messages": OtherKey("buffer.memory", "It is in bytes; records are not counted"),
    "queue.buffering.max.ms": OtherKey("linger.ms"),
    "request.required.acks": OtherKey("acks"),
    "sticky.partitioning.linger.ms": _dropped("records without a key change the partition after batch.size bytes"),
    **_all(
        ("enable.gapless.guarantee", "message.copy.max.bytes", "queue.buffering.backpressure.threshold"),
        _dropped(),
    ),
    "queuing.strategy": _dropped("each partition's records are sent in order"),
    # Partitions
    "partitioner": OtherKey(
        "partitioner.class",
        "librdkafka's names are taken. Only records without a key differ with murmur2: librdkafka puts all of them in "
        "one partition, Ottla as Java's producer does",
    ),
    "partitioner.cb": OtherKey(
        "partitioner.class", "It takes a function partition(topic, key, view), see docs/plugins-partitioner.md"
    ),
    "msg.order.cmp": _dropped("records are sent in the order of their calls of send"),
    # Connections and metadata
    "api.version.fallback.ms": _dropped("brokers say which versions they support"),
    "api.version.auto.timeout.ms": _dropped("brokers say which versions they support"),
    "api.version": _dropped("brokers say which versions they support"),
    "api.version.request": _dropped("brokers say which versions they support"),
    "api.version.request.timeout.ms": OtherKey("socket.connection.setup.timeout.ms"),
    "broker.version.fallback": _dropped("brokers from 0.10.2 on are supported without it"),
    "bootstrap.timeout.ms": OtherKey("max.block.ms"),
    "broker.address.family": _dropped("all addresses of a host name are tried in turn"),
    "broker.address.ttl": _dropped("host names are resolved for each new connection"),
    "metadata.broker.list": OtherKey("bootstrap.servers"),
    "metadata.request.timeout.ms": OtherKey("request.timeout.ms"),
    "proxy.url": OtherKey("connection.via", "It names a transport plugin, for example that of an HTTP or SOCKS5 proxy"),
    "socks5.proxy": OtherKey("connection.via", "It names a transport plugin, for example that of a SOCKS5 proxy"),
    "reconnect.backoff.jitter.ms": _dropped("waits before connections have a random part of 20 %"),
    "socket.receive.buffer.bytes": OtherKey("receive.buffer.bytes"),
    "socket.send.buffer.bytes": OtherKey("send.buffer.bytes"),
    "socket.timeout.ms": OtherKey("request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": OtherKey("metadata.max.age.ms"),
    "topic.metadata.refresh.fast.interval.ms": OtherKey("retry.backoff.ms"),
    "socket.keepalive.enable": _dropped("TCP keep-alive is always on"),
    "socket.nagle.disable": _dropped("TCP_NODELAY is always set"),
    "socket.options": _dropped("TCP_NODELAY and TCP keep-alive are always set"),
    "allow.auto.create.topics": _dropped("brokers create topics if auto.create.topics.enable is set"),
    **_all(
        (
            "enable.sparse.connections",
            "socket.blocking.max.ms",
            "socket.max.fails",
            "topic.metadata.propagation.max.ms",
            "topic.metadata.refresh.fast.cnt",
            "topic.metadata.refresh.sparse",
        ),
        _dropped("only brokers that lead partitions with records get connections"),
    ),
    # TLS
    "enable.ssl.certificate.verification": _dropped(
        "certificates are always verified, and ssl.truststore.location names the authorities"
    ),
    "ssl.ca": OtherKey("ssl.truststore.certificates"),
    "ssl.ca.certificate.stores": _dropped("without ssl.truststore.location the system's authorities count"),
    "ssl.ca.location": OtherKey("ssl.truststore.location"),
    "ssl.ca.pem": OtherKey("ssl.truststore.certificates"),
    "ssl.cafile": OtherKey("ssl.truststore.location"),
    "ssl.certfile": OtherKey("ssl.keystore.location", _PEM),
    "ssl.certificate": OtherKey("ssl.keystore.certificate.chain"),
    "ssl.certificate.location": OtherKey("ssl.keystore.location", _PEM),
    "ssl.certificate.pem": OtherKey("ssl.keystore.certificate.chain"),
    "ssl.check.hostname": OtherKey("ssl.endpoint.identification.algorithm", "False is the empty string"),
    "ssl.ciphers": OtherKey("ssl.cipher.suites"),
    "ssl.context": OtherKey("ssl.truststore.location", "Contexts of Python's ssl are not accepted"),
    "ssl.crlfile": OtherKey("ssl.crl.location"),
    "ssl.key": OtherKey("ssl.keystore.key"),
    "ssl.key.location": OtherKey("ssl.keystore.location", _PEM),
    "ssl.key.pem": OtherKey("ssl.keystore.key"),
    "ssl.keyfile": OtherKey("ssl.keystore.location", _PEM),
    "ssl.password": OtherKey("ssl.key.password"),
    "ssl.certificate.verify.cb": _dropped("certificates are verified by the trust store"),
    **_all(
        (
            "ssl.curves.list",
            "ssl.engine.callback.data",
            "ssl.engine.id",
            "ssl.engine.location",
            "ssl.providers",
            "ssl.sigalgs.list",
        ),
        _dropped("OpenSSL's own configuration file (OPENSSL_CONF) has such settings"),
    ),
    # Logins
    "enable.sasl.oauthbearer.unsecure.jwt": _dropped("sasl.oauthbearer.token.provider gives tokens"),
    "oauthbearer.token.refresh.cb": OtherKey("sasl.oauthbearer.token.provider", _TOKEN),
    "oauth.cb": OtherKey("sasl.oauthbearer.token.provider", _TOKEN),
    "sasl.kerberos.domain.name": _dropped("the principal of a broker has its advertised host name"),
    "sasl.kerberos.name": OtherKey("sasl.kerberos.principal"),
    "sasl.mechanisms": OtherKey("sasl.mechanism"),
    "sasl.oauth.token.provider": OtherKey("sasl.oauthbearer.token.provider", "It is the method `token` of the object"),
    "sasl.oauthbearer.assertion.jwt.template.file": OtherKey("sasl.oauthbearer.assertion.template.file"),
    "sasl.oauthbearer.client.id": OtherKey("sasl.oauthbearer.client.credentials.client.id"),
    "sasl.oauthbearer.client.secret": OtherKey("sasl.oauthbearer.client.credentials.client.secret"),
    "sasl.oauthbearer.config": OtherKey("sasl.oauthbearer.token.provider"),
    "sasl.plain.password": OtherKey("sasl.password"),
    "sasl.plain.username": OtherKey("sasl.username"),
    "sasl.oauthbearer.metadata.authentication.type": OtherKey("sasl.oauthbearer.token.provider"),
    **_all(
        ("sasl.oauthbearer.method", "sasl.oauthbearer.grant.type"),
        _dropped("sasl.oauthbearer.token.endpoint.url gets tokens over HTTP"),
    ),
    "enable.sasl.queue": _dropped(),
    # Logs, metrics and deliveries
    "debug": _dropped("set the level of the logger 'ottla' to DEBUG"),
    "logger": _dropped("the logger is 'ottla'"),
    **_all(("log.cb", "log.level", "log.queue", "log.thread.name"), _dropped("configure the logger 'ottla'")),
    "log.connection.close": _dropped("the logger 'ottla.network' reports connections"),
    **_all(
        ("stats.cb", "statistics.interval.ms"),
        _dropped("call producer.metrics() where you need figures, or set metric.reporters"),
    ),
    "metrics.enabled": _dropped("metrics cost nothing until they are read"),
    **_all(
        ("error.cb", "throttle.cb", "background.event.cb", "enabled.events"),
        _dropped("errors and throttling are logged, and deliveries have their errors"),
    ),
    **_all(
        ("dr.cb", "dr.msg.cb", "on.delivery", "delivery.report.only.error", "produce.offset.report", "opaque"),
        OtherKey(None, "pass on_delivery to each call of send, or read the delivery that it returns"),
    ),
    # The program and the library
    "default.topic.config": OtherKey(None, "set its keys in the main configuration"),
    "default.topic.conf": OtherKey(None, "set its keys in the main configuration"),
    "loop": _dropped("ottla.aio.AsyncProducer uses the running loop"),
    "plugin.library.paths": _dropped("plugins are Python packages, see docs/plugins.md"),
    "interceptors": OtherKey("interceptor.classes"),
    "schema.registry.url": OtherKey(None, "it is a key of ottla-serializer-schema-registry: set value.serializer=avro"),
    # Serializers with a schema registry
    **_all(
        ("bearer.auth.scope.claim.name", "bearer.auth.sub.claim.name"),
        _dropped("the claims of a token are the registry's to check"),
    ),
    "bearer.auth.custom.provider.class": OtherKey(None, "write a function that returns a token as bearer.auth.token"),
    "bearer.auth.custom.provider.config": _dropped("give functools.partial(FUNCTION, CONFIG) as bearer.auth.token"),
    "bearer.auth.custom.provider.function": OtherKey(
        None, "write a function without arguments that returns the token as bearer.auth.token"
    ),
    "schema.registry.basic.auth.user.info": OtherKey(None, "write basic.auth.user.info"),
    "schema.registry.ssl.truststore.location": OtherKey(
        None, "write schema.registry.ssl.ca.location, with a PEM file of the authorities"
    ),
    "schema.registry.ssl.keystore.location": OtherKey(
        None, "write schema.registry.ssl.certificate.location and schema.registry.ssl.key.location, with PEM files"
    ),
    **_all(
        ("key.subject.name.strategy", "value.subject.name.strategy"),
        OtherKey(None, "write subject.name.strategy, which is for keys and values"),
    ),
    **_all(
        ("use.schema.id", "use.latest.with.metadata"),
        OtherKey(None, "schemas are not chosen in this way; give one in value.schema, or set use.latest.version"),
    ),
    **_all(("id.compatibility.strict", "latest.compatibility.strict", "max.schemas.per.subject"), _dropped()),
    **_all(
        (
            "builtin.features",
            "client.software.name",
            "client.software.version",
            "closesocket.cb",
            "connect.cb",
            "enable.random.seed",
            "internal.termination.signal",
            "kafka.client",
            "open.cb",
            "resolve.cb",
            "selector",
            "socket.cb",
            "test.mock.broker.rtt",
            "test.mock.num.brokers",
            "topic.blacklist",
        ),
        _dropped(),
    ),
    # Consumers
    **_all(
        (
            "auto.commit.enable",
            "auto.commit.interval.ms",
            "auto.offset.reset",
            "check.crcs",
            "consume.callback.max.messages",
            "coordinator.query.interval.ms",
            "enable.auto.commit",
            "enable.auto.offset.store",
            "enable.partition.eof",
            "fetch.error.backoff.ms",
            "fetch.max.bytes",
            "fetch.message.max.bytes",
            "fetch.min.bytes",
            "fetch.queue.backoff.ms",
            "fetch.wait.max.ms",
            "group.id",
            "group.instance.id",
            "group.protocol",
            "group.protocol.type",
            "group.remote.assignor",
            "heartbeat.interval.ms",
            "isolation.level",
            "max.partition.fetch.bytes",
            "max.poll.interval.ms",
            "max.poll.records",
            "offset.store.method",
            "offset.store.path",
            "offset.store.sync.interval.ms",
            "partition.assignment.strategy",
            "queued.max.messages.kbytes",
            "queued.min.messages",
            "session.timeout.ms",
            "share.acknowledgement.mode",
        ),
        _dropped("it is for consumers"),
    ),
}
