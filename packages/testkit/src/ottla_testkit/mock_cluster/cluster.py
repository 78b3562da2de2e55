"""The mock Kafka cluster of librdkafka: it runs inside this process and serves real sockets on 127.0.0.1.

Use it to inject errors, lose connections, move leaders and count requests. It checks almost nothing in the requests
that it gets: it stores bad checksums, sequence gaps and old epochs, and a repeated batch twice. Tests of formats and of
exactly-once need a real broker. Its ApiVersions responses from version 3 on are malformed: clients must fall back to
version 0. Its error responses to FindCoordinator lack a host, without which they cannot be read.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Self

import attrs

from ottla_testkit.errors import MockError
from ottla_testkit.mock_cluster import librdkafka

DISCONNECT = -195  # an error for `push_errors`: close the connection instead of responding


@attrs.frozen(kw_only=True)
class MockRequest:
    """A request that a mock broker received; `at` in seconds of librdkafka's own clock."""

    broker: int
    api_key: int
    at: float


class MockCluster:
    """Mock brokers with ids from 1, until `close` or the end of a `with` block.

    Unknown topics are created with 4 partitions. Raises `MockUnavailableError` without confluent-kafka.
    """

    def __init__(self, *, brokers: int = 1) -> None:
        self.brokers = list(range(1, brokers + 1))
        self._library = librdkafka.load()
        self._client = self._new_client()
        self._cluster: int | None = self._library.rd_kafka_mock_cluster_new(self._client, brokers)
        if not self._cluster:
            self._library.rd_kafka_destroy(self._client)
            raise MockError(f"librdkafka could not create a mock cluster of {brokers} brokers")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End every broker; a second call does nothing."""
        if self._cluster:
            self._library.rd_kafka_mock_cluster_destroy(self._cluster)
            self._library.rd_kafka_destroy(self._client)
            self._cluster = None

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,...` of every broker."""
        servers: bytes = self._library.rd_kafka_mock_cluster_bootstraps(self._open())
        return servers.decode()

    def create_topic(self, name: str, *, partitions: int = 1, replication: int = 1) -> None:
        """Create a topic; the brokers lead its partitions in turn."""
        self._ask("mock_topic_create", name.encode(), partitions, replication)

    def push_errors(self, api_key: int, errors: Iterable[int]) -> None:
        """Add errors for an API's next responses, in turn: 0 for none, `DISCONNECT` to close the connection.

        The errors are numbers, such as `ErrorCode.MESSAGE_TOO_LARGE`. The API is Kafka's number of a request: Produce
        is 0, Metadata 3, FindCoordinator 10, InitProducerId 22, AddPartitionsToTxn 24, EndTxn 26.
        """
        codes = list(errors)
        array = (ctypes.c_int * len(codes))(*codes)
        self._library.rd_kafka_mock_push_request_errors_array(self._open(), api_key, len(codes), array)

    def clear_errors(self, api_key: int) -> None:
        """Remove pushed errors that were not used yet."""
        self._library.rd_kafka_mock_clear_request_errors(self._open(), api_key)

    def set_topic_error(self, topic: str, error: int) -> None:
        """Set the error that Metadata has for a topic; 0 for none."""
        self._library.rd_kafka_mock_topic_set_error(self._open(), topic.encode(), error)

    def set_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move a partition to a broker; -1 leaves it without a leader."""
        self._ask("mock_partition_set_leader", topic.encode(), partition, broker)

    def set_coordinator(self, kind: str, key: str, broker: int) -> None:
        """Move the coordinator of a "group" or a "transaction" with this id to a broker."""
        self._ask("mock_coordinator_set", kind.encode(), key.encode(), broker)

    def broker_down(self, broker: int) -> None:
        """Close a broker's connections and refuse new ones."""
        self._ask("mock_broker_set_down", broker)

    def broker_up(self, broker: int) -> None:
        """Let a broker accept connections again, on the port it had."""
        self._ask("mock_broker_set_up", broker)

    def set_rtt(self, broker: int, seconds: float) -> None:
        """Delay every response of a broker by *seconds*."""
        self._ask("mock_broker_set_rtt", broker, round(seconds * 1000))

    def set_api_version(self, api_key: int, *, lowest: int, highest: int) -> None:
        """Set the lowest and highest version of an API that the brokers support; -1 and -1 for none."""
        self._ask("mock_set_apiversion", api_key, lowest, highest)

    def start_tracking(self) -> None:
        """Record requests from now on."""
        self._library.rd_kafka_mock_start_request_tracking(self._open())

    def clear_requests(self) -> None:
        """Remove the requests so far; recording continues."""
        self._library.rd_kafka_mock_clear_requests(self._open())

    def requests(self) -> list[MockRequest]:
        """Return the requests since `start_tracking`, oldest first."""
        count = ctypes.c_size_t()
        array = self._library.rd_kafka_mock_get_requests(self._open(), ctypes.byref(count))
        try:
            return [self._request(array[index]) for index in range(count.value)]
        finally:
            self._library.rd_kafka_mock_request_destroy_array(array, count)

    def request_count(self, api_key: int) -> int:
        """Return the number of requests of one API since `start_tracking`."""
        return sum(request.api_key == api_key for request in self.requests())

    def _new_client(self) -> int:
        """Create the client that librdkafka requires for a mock cluster; it connects nowhere."""
        error_text = ctypes.create_string_buffer(512)
        configuration = self._library.rd_kafka_conf_new()
        self._library.rd_kafka_conf_set(configuration, b"log_level", b"2", error_text, len(error_text))
        client: int | None = self._library.rd_kafka_new(librdkafka.PRODUCER, configuration, error_text, len(error_text))
        if not client:
            raise MockError(f"librdkafka could not create a client: {error_text.value.decode()}")
        return client

    def _request(self, handle: int) -> MockRequest:
        library = self._library
        return MockRequest(
            broker=library.rd_kafka_mock_request_id(handle),
            api_key=library.rd_kafka_mock_request_api_key(handle),
            at=library.rd_kafka_mock_request_timestamp(handle) / 1e6,
        )

    def _open(self) -> int:
        if not self._cluster:
            raise MockError("the mock cluster is closed")
        return self._cluster

    def _ask(self, name: str, *arguments: bytes | int) -> None:
        code = getattr(self._library, "rd_kafka_" + name)(self._open(), *arguments)
        if code:
            reason: bytes = self._library.rd_kafka_err2str(code)
            raise MockError(f"{name}{arguments}: {reason.decode()}")
