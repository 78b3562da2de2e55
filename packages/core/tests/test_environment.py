"""The system is used through the environment: a simulation that passes its own decides about all of it."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from own_io_thread import io_thread_of

import ottla
from ottla import Producer
from ottla.aio import AsyncProducer
from ottla.concurrency import environment
from ottla.concurrency.environment import SYSTEM, Environment
from ottla.errors import IllegalStateError
from ottla.network.build import build_backoff
from ottla.producer.build import build

ROOT = Path(ottla.__file__).parent
CONVERTED = ("accumulator", "concurrency", "network", "producer", "sender", "transactions")
SYSTEM_MODULES = {"random", "selectors", "threading", "time"}
HARMLESS = {
    "threading.TIMEOUT_MAX",
    "threading.get_ident",
    "threading.current_thread",
    "threading.main_thread",
    "selectors.EVENT_READ",
    "selectors.EVENT_WRITE",
}
EXCEPTIONS = {
    "accumulator/batch_result.py": "nothing waits while its lock is held",
    "accumulator/locked_columns.py": "nothing waits while its lock is held; timestamps are the system's time",
    "accumulator/closable_waits.py": "the calls of the running thread, which waits for none of them",
    "accumulator/delivery.py": "a delivery outlives its producer, and keeps nothing of it",
    "accumulator/event_loops.py": "the loop of the running thread: no thread waits, and the time is the loop's",
    "accumulator/raising_callbacks.py": "faults of the program, which producers of all simulations share",
    "accumulator/topic_routes.py": "nothing waits while its lock is held",
    "concurrency/environment.py": "the default environment is made of Python's functions",
    "concurrency/single_flight.py": "fetches of plugins, over connections that no simulation has",
    "concurrency/signals.py": "the time between two signals: Python runs handlers by the system's clock",
    "network/authentication/authentication.py": "the default of a parameter that `network.build` passes",
    "network/backoff.py": "the default of a parameter that `network.build` passes",
    "network/client.py": "the default of a parameter that `network.build` passes",
    "network/selector/socket_wait.py": "waits for real sockets; a simulation passes its own selector",
    "producer/lifecycle.py": "the end of the program, which no simulation has",
    "producer/per_process.py": "it makes whole producers, each with an environment of its own",
}


def uses(path: Path) -> Iterator[str]:
    """The names of system modules that a file reads outside of annotations."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    annotations = {
        id(part)
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
        for part in ast.walk(annotation)
    }
    names = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in SYSTEM_MODULES
        for alias in node.names
    }
    for node in ast.walk(tree):
        if id(node) in annotations:
            continue
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in SYSTEM_MODULES:
            yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.Name) and node.id in names:
            yield names[node.id]


def test_only_the_environment_makes_locks_threads_and_random_numbers() -> None:
    found = {
        str(path.relative_to(ROOT)): sorted(set(uses(path)) - HARMLESS)
        for room in CONVERTED
        for path in (ROOT / room).rglob("*.py")
    }

    assert {path: names for path, names in found.items() if names and path not in EXCEPTIONS} == {}


def test_every_exception_is_needed() -> None:
    unused = [path for path in EXCEPTIONS if not set(uses(ROOT / path)) - HARMLESS]

    assert unused == []


def test_all_parts_of_a_producer_are_made_with_its_environment() -> None:
    threads: list[str] = []

    def thread(run: object, name: str) -> threading.Thread:
        threads.append(name)
        return threading.Thread(target=lambda: None)

    environment = Environment(clock=lambda: 5.0, thread=thread)
    engine = build({"bootstrap.servers": "127.0.0.1:9", "client.id": "me"}, {}, environment=environment)
    io_thread_of(engine)._client.shutdown()

    assert threads == ["ottla-io-me"]
    assert engine.clock() == 5.0


def test_jitter_is_drawn_from_the_environment() -> None:
    class Constant:
        def random(self) -> float:
            return 1.0

    random: object = Constant()
    backoff = build_backoff(1.0, 2.0, Environment(random=random))  # type: ignore[arg-type]

    assert backoff.delay(0) == pytest.approx(1.2)
    assert build_backoff(1.0, 2.0, SYSTEM).delay(0) != build_backoff(1.0, 2.0, SYSTEM).delay(0)


def lock_of(library: str) -> type:
    """A class of locks, as a library that patches Python has one."""
    return type("Lock", (), {"__module__": f"{library}.thread"})


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
@pytest.mark.parametrize("make", [Producer, AsyncProducer, lambda **options: ottla.per_process(**options)()])
def test_threads_that_were_patched_after_the_import_are_an_error(
    library: str, make: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading, "Lock", lock_of(library))

    with pytest.raises(IllegalStateError, match=f"^{library} has patched threading after ottla was imported") as caught:
        make(bootstrap_servers="127.0.0.1:1")

    assert "before anything imports ottla" in str(caught.value)


def test_other_libraries_may_replace_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As profilers do, whose locks are Python's inside."""
    taken = threading.Lock
    monkeypatch.setattr(threading, "Lock", lambda: taken())

    Producer(bootstrap_servers="127.0.0.1:1").close(0)


def test_threads_that_were_patched_before_the_import_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Lock", lock_of("gevent"))
    monkeypatch.setattr(environment, "SYSTEM", Environment(lock=lock_of("gevent")))

    environment.check_patches()
