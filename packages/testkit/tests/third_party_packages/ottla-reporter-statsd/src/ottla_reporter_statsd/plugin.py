"""The plugin: its keys, and a reporter that sends a producer's metrics to a StatsD server by UDP."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Final

from ottla.errors import printable
from ottla.hookspecs import hookimpl
from ottla.interfaces import (
    ConfigKey,
    MetricDescription,
    MetricsRegistry,
    MetricsReporter,
    PluginConfig,
    PluginContext,
    SupportsClose,
)

from ottla_reporter_statsd.lines import Lines, clean, datagrams

HOST: Final = "statsd.host"
PORT: Final = "statsd.port"
INTERVAL: Final = "statsd.interval.ms"
PREFIX: Final = "statsd.prefix"
TAGS: Final = "statsd.tags"

LONGEST_END: Final = 5.0
"""Seconds that `close` waits for the thread, whose look-up of the host's name cannot be interrupted."""


class StatsdReporter(SupportsClose):
    """Send all metrics at intervals, and a last time at the end.

    A thread of its own looks the host's name up and sends, so that it follows a server that moves. It never waits for
    the server: what the socket does not take is sent with the next interval.
    """

    def __init__(self, *, host: str, port: int, interval: float, lines: Lines, context: PluginContext) -> None:
        self._host = host
        self._port = port
        self._interval = interval
        self._lines = lines
        self._context = context
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._described: dict[tuple[str, str], MetricDescription] = {}
        self._failing = False

    def start(self, registry: MetricsRegistry) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, args=(registry,), name="ottla-reporter-statsd", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last values, and end the thread."""
        self._over.set()
        if self._thread is None:
            return
        self._thread.join(LONGEST_END)
        if self._thread.is_alive():
            self._context.logger.warning(
                "%s: the last metrics were not sent, because looking up %s takes too long; check %s",
                self._context.client_id,
                printable(self._host),
                HOST,
            )

    def _run(self, registry: MetricsRegistry) -> None:
        while not self._over.wait(self._interval):
            self._report(registry)
        self._report(registry)

    def _report(self, registry: MetricsRegistry) -> None:
        """Send the metrics; a failure must not end the thread. It is logged once, until sending succeeds again."""
        try:
            self._send(registry)
        except Exception as error:
            if not self._failing:
                self._context.logger.warning(
                    "%s: metrics could not be sent to %s:%d: %s%s",
                    self._context.client_id,
                    printable(self._host),
                    self._port,
                    printable(str(error) or type(error).__name__),
                    f"; check {HOST} and {PORT}" if isinstance(error, OSError) else "",
                    exc_info=not isinstance(error, OSError),
                )
            self._failing = True
        else:
            self._failing = False

    def _send(self, registry: MetricsRegistry) -> None:
        values = registry.snapshot()
        if any((name.group, name.name) not in self._described for name in values):
            self._described = {(each.group, each.name): each for each in registry.describe()}
        family, kind, protocol, _name, address = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.setblocking(False)
            for group in datagrams(self._lines.of(values, self._described)):
                sock.sendto(b"\n".join(line.content for line in group), address)
                self._lines.sent(group)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """The keys for the server, the interval, and what all lines have in common."""
    return [
        ConfigKey(name=HOST, type=_host, default="localhost", meaning="host of the StatsD server"),
        ConfigKey(name=PORT, type=_port, default=8125, meaning="its UDP port"),
        ConfigKey(name=INTERVAL, type=_seconds, default=10.0, meaning="milliseconds between two reports"),
        ConfigKey(name=PREFIX, type=_prefix, default="ottla", meaning="what all names begin with; may be empty"),
        ConfigKey(name=TAGS, type=_tags, default=(), meaning="tags of all metrics, such as env:prod,team:shop"),
    ]


@hookimpl
def ottla_reporter(config: PluginConfig, context: PluginContext) -> MetricsReporter:
    """The reporter named `statsd`. Nothing is started yet."""
    return StatsdReporter(
        host=config[HOST],
        port=config[PORT],
        interval=config[INTERVAL],
        lines=Lines(prefix=config[PREFIX], tags=config[TAGS]),
        context=context,
    )


def _host(written: object) -> str:
    host = str(written).strip()
    if not host:
        raise ValueError("write a host's name or its address")
    return host


def _port(written: object) -> int:
    port = int(str(written))
    if not 1 <= port <= 65_535:
        raise ValueError("write a port from 1 to 65535")
    return port


def _seconds(written: object) -> float:
    milliseconds = int(str(written))
    if milliseconds < 1:
        raise ValueError("write milliseconds, at least 1")
    return milliseconds / 1000


def _prefix(written: object) -> str:
    prefix = str(written).strip().strip(".")
    if prefix != clean(prefix):
        raise ValueError("a prefix has no spaces, and none of : | @ # ,")
    return prefix


def _tags(written: object) -> tuple[str, ...]:
    tags = tuple(tag for tag in (each.strip() for each in str(written).split(",")) if tag)
    for tag in tags:
        label, _colon, text = tag.partition(":")
        if not label or clean(label) != label or clean(text) != text:
            raise ValueError("write pairs such as env:prod,team:shop")
    return tags
