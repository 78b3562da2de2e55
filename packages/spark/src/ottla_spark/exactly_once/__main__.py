"""`python -m ottla_spark.exactly_once PREFIX`: print what the next driver would do. Changes nothing."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.config.settings import from_file
from ottla.errors import ConfigError, OttlaError
from ottla_spark.exactly_once.settings import EARLIER, SHARED, TOPIC
from ottla_spark.exactly_once.status import DEFAULT_TIMEOUT, ledger_status


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the ledger status; return 1 when the cluster cannot be reached."""
    parser = argparse.ArgumentParser(prog="python -m ottla_spark.exactly_once", description=__doc__)
    parser.add_argument("prefix", help="the option transactional.id.prefix of the query or job")
    parser.add_argument("--job-id", help="the id of a job of write_once")
    parser.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT[,...]", default="", help="the brokers, as in a producer's settings"
    )
    parser.add_argument(
        "--command-config", metavar="FILE", type=Path, help="the producer's settings: Java properties, or TOML (.toml)"
    )
    parser.add_argument("--ledger-topic", metavar="NAME", help="the option ledger.topic, if it is set")
    parser.add_argument("--ledger-shared", metavar="true|false", help="the option ledger.shared, if it is set")
    parser.add_argument("--ledger-earlier-topic", metavar="NAME", help="the option ledger.earlier.topic, if it is set")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=DEFAULT_TIMEOUT,
        help="the maximum time to wait (default: %(default)s)",
    )
    given = parser.parse_args(arguments)
    try:
        settings = from_file(given.command_config) if given.command_config else {}
    except ConfigError as error:
        parser.error(str(error))
    if given.bootstrap_servers:
        settings["bootstrap.servers"] = given.bootstrap_servers
    options = {f"kafka.{key}": _as_option(value) for key, value in settings.items()}
    options["transactional.id.prefix"] = given.prefix
    ledger = {TOPIC: given.ledger_topic, SHARED: given.ledger_shared, EARLIER: given.ledger_earlier_topic}
    options |= {option: value for option, value in ledger.items() if value is not None}
    try:
        print(ledger_status(options, job_id=given.job_id, timeout=given.timeout))
    except OttlaError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _as_option(value: Any) -> Any:
    """A setting as an option of Spark, which has no lists."""
    return ",".join(value) if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
