"""`python -m ottla_testkit` runs a cluster until Ctrl-C, with the settings that it prints."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from long_forms import share

from ottla import Producer
from ottla_testkit.processes.free_ports import HOST, free_ports

pytestmark = pytest.mark.kafka

HANG_GUARD = 120.0


@contextmanager
def running(*options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "ottla_testkit", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as child:
        try:
            yield child
        finally:
            child.kill()


def printed(child: subprocess.Popen[str], count: int) -> dict[str, str]:
    assert child.stdout is not None
    lines = [child.stdout.readline().strip() for _ in range(count)]
    return {key: value for key, _equals, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize(
    ("options", "count", "stop"),
    share(
        [
            pytest.param((), 1, signal.SIGINT, id="plain, SIGINT"),
            pytest.param((), 1, signal.SIGTERM, id="plain, SIGTERM"),
            pytest.param(("--user", "alice:secret"), 5, signal.SIGTERM, id="user, SIGTERM"),
            pytest.param(("--user", "alice:secret"), 5, signal.SIGINT, id="user, SIGINT"),
        ],
        gate=1,
        why="the gate has a user and SIGTERM",
    ),
)
def test_the_cluster_serves_until_a_signal(options: Sequence[str], count: int, stop: signal.Signals) -> None:
    [port] = free_ports(1)
    with running("--port", str(port), "--topic", "orders:3", *options) as child:
        settings = printed(child, count)
        if options:
            settings["sasl.password"] = "secret"
        else:
            assert settings == {"bootstrap.servers": f"{HOST}:{port}"}
        with Producer(settings) as producer:
            assert len(producer.partitions_for("orders")) == 3
            assert producer.send("orders", b"v", partition=2).result(timeout=60).offset == 0
        child.send_signal(stop)

        assert child.wait(HANG_GUARD) == 0
    with socket.socket() as probe:
        probe.bind((HOST, port))


def test_a_port_that_is_in_use_ends_the_command_with_the_reason() -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()

        command = [sys.executable, "-m", "ottla_testkit", "--port", str(taken.getsockname()[1])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_GUARD)

    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"another server uses port \d+ of 127\.0\.0\.1; choose another one\n", done.stderr)
