"""A Kafka cluster to try services with by hand: `python -m ottla_testkit`. It runs until Ctrl-C, and keeps nothing.

The settings of a client are printed to the standard output, as lines of a properties file.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

from ottla_testkit.errors import ClusterError, KafkaUnavailableError
from ottla_testkit.java.jars import KAFKA_VERSION
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.kafka_cluster.security import Security


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster until SIGINT or SIGTERM; returns the exit code."""
    chosen = _parser().parse_args(arguments)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt), _cluster(chosen) as settings:
            sys.stdout.write("".join(f"{key}={value}\n" for key, value in settings.items()))
            sys.stdout.flush()
            sys.stderr.write("Ctrl-C ends the brokers and removes their data.\n")
            Event().wait()
    except (ClusterError, KafkaUnavailableError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ottla_testkit", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--port", type=int, default=9092, help="the port of the first broker on 127.0.0.1 (%(default)s)"
    )
    parser.add_argument("--nodes", type=int, default=1, help="the number of brokers (%(default)s)")
    parser.add_argument("--version", default=KAFKA_VERSION, help="the version of Kafka (%(default)s)")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="a topic to create")
    parser.add_argument(
        "--user",
        type=_user,
        metavar="NAME:PASSWORD",
        help="also listen with TLS and SASL, and print the settings of that listener; needs ottla-testkit[tls]",
    )
    return parser


def _user(text: str) -> tuple[str, str]:
    name, colon, password = text.partition(":")
    if not (name and colon and password):
        raise argparse.ArgumentTypeError("write NAME:PASSWORD")
    return name, password


@contextmanager
def _cluster(chosen: argparse.Namespace) -> Iterator[Mapping[str, str]]:
    """Run the cluster; yields the settings of a client, without the password."""
    with tempfile.TemporaryDirectory(prefix="ottla-testkit-") as folder:
        security = None if chosen.user is None else Security(folder=Path(folder), users=dict([chosen.user]))
        with KafkaCluster(nodes=chosen.nodes, version=chosen.version, port=chosen.port, security=security) as kafka:
            for topic in chosen.topic:
                name, _colon, partitions = topic.partition(":")
                kafka.create_topic(name, partitions=int(partitions or 1))
            yield (
                {"bootstrap.servers": kafka.bootstrap_servers}
                if security is None
                else {
                    "bootstrap.servers": kafka.listener("SASL_SSL"),
                    "security.protocol": "SASL_SSL",
                    "ssl.truststore.location": str(security.certificates.authority),
                    "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.username": chosen.user[0],
                }
            )


if __name__ == "__main__":
    sys.exit(main())
