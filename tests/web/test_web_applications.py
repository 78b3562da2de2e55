"""The programs of the page "Web applications" run in their servers, answer requests and lose no record at SIGTERM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from documents import ROOT, blocks
from ottla_testkit.kafka_cluster import KafkaCluster
from ottla_testkit.processes.free_ports import free_ports
from ottla_testkit.pytest_plugin import MakeTopic
from readback import read_back

pytestmark = pytest.mark.kafka

PAGE: Final = ROOT / "docs" / "web-applications.md"
HANG_GUARD: Final = 120.0
ORDERS: Final = [b"order %d" % number for number in range(20)]

DJANGO: Final = """
import django
from django.conf import settings
from django.urls import path

settings.configure(SECRET_KEY="a test's", ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__)
django.setup()
from views import place_order

urlpatterns = [path("orders", place_order)]
"""


class Programs:
    """The programs of the page as modules in a folder, with the address of a broker and a topic of the test."""

    def __init__(self, folder: Path, servers: str, topic: str) -> None:
        self.folder = folder
        self._instead = {"localhost:9092": servers, '"orders"': json.dumps(topic)}

    def write(self, module: str, *, of: str) -> None:
        """Write the only block of the page with this text as a module."""
        [text] = [block.text for block in blocks(PAGE) if of in block.text]
        for old, new in self._instead.items():
            text = text.replace(old, new)
        (self.folder / f"{module}.py").write_text(text)

    def add(self, module: str, text: str) -> None:
        """Write a module of the test."""
        (self.folder / f"{module}.py").write_text(text)

    @contextmanager
    def run(self, *command: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
        """A server in the folder; it is ended by SIGTERM unless it has ended, and killed if that does not help."""
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        child = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            start_new_session=True,  # so that workers are killed with it
        )
        try:
            yield child
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait(HANG_GUARD)


@pytest.fixture
def topic(make_topic: MakeTopic) -> str:
    """A topic for orders."""
    return make_topic()


@pytest.fixture
def programs(tmp_path: Path, kafka: KafkaCluster, topic: str) -> Programs:
    """The page's programs in a folder of the test."""
    return Programs(tmp_path, kafka.bootstrap_servers, topic)


def post(port: int, order: bytes, child: subprocess.Popen[bytes]) -> int:
    """The offset that the server answers with; waits until the server listens."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/orders", data=order, headers=headers, method="POST")
    deadline = time.monotonic() + HANG_GUARD
    while True:
        try:
            with urllib.request.urlopen(request, timeout=HANG_GUARD) as response:
                offset: int = json.loads(response.read())["offset"]
                return offset
        except urllib.error.HTTPError:
            raise
        except OSError:  # it does not listen yet
            assert child.poll() is None, "the server has ended"
            assert time.monotonic() < deadline
            time.sleep(0.05)


def end(child: subprocess.Popen[bytes]) -> int:
    """Send SIGTERM; returns the exit code."""
    child.terminate()
    return child.wait(HANG_GUARD)


def values(kafka: KafkaCluster, topic: str) -> Sequence[bytes | None]:
    return [record.value for record in read_back(kafka.bootstrap_servers, topic)]


@pytest.mark.parametrize("workers", [1, 2])
def test_fastapi_answers_with_offsets(kafka: KafkaCluster, programs: Programs, topic: str, workers: int) -> None:
    programs.write("shop", of="FastAPI(lifespan=lifespan)")
    [port] = free_ports(1)
    command = ("uvicorn", "shop:app", "--host", "127.0.0.1", "--port", str(port), "--workers", str(workers))

    with programs.run(*command) as server:
        offsets = [post(port, order, server) for order in ORDERS]
        code = end(server)

    assert offsets == list(range(len(ORDERS)))
    assert values(kafka, topic) == ORDERS
    assert code in (0, -signal.SIGTERM)


def answer(port: int, order: object, child: subprocess.Popen[bytes]) -> tuple[int, Mapping[str, object]]:
    """The status and the document that the server answers an order of JSON with."""
    try:
        return 200, {"offset": post(port, json.dumps(order).encode(), child)}
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_fastapi_answers_while_kafka_does_not(kafka: KafkaCluster, programs: Programs, tmp_path: Path) -> None:
    programs.write("shop", of="FastAPI(lifespan=impatient)")
    [port, silent] = free_ports(2)
    down = Programs(tmp_path / "down", f"127.0.0.1:{silent}", "orders")
    down.folder.mkdir()
    down.write("shop", of="FastAPI(lifespan=impatient)")
    command = ("uvicorn", "shop:app", "--host", "127.0.0.1", "--port", str(port))

    with programs.run(*command) as server:
        assert answer(port, {"item": "apples"}, server) == (200, {"offset": 0})
        assert answer(port, {"item": "a" * 2_000_000}, server)[0] == 422
    with down.run(*command) as server:
        assert answer(port, {"item": "apples"}, server) == (503, {"error": "try again later"})


def test_flask_has_a_producer_in_each_forked_worker(kafka: KafkaCluster, programs: Programs, topic: str) -> None:
    programs.write("shop", of="flask.Flask(__name__)")
    programs.write("gunicorn.conf", of="def worker_exit(")
    [port] = free_ports(1)
    command = ("gunicorn", "--workers", "2", "--preload", "--bind", f"127.0.0.1:{port}", "shop:app")

    with programs.run(*command) as server:
        offsets = [post(port, order, server) for order in ORDERS]
        code = end(server)

    assert offsets == list(range(len(ORDERS)))
    assert values(kafka, topic) == ORDERS
    assert code == 0


@pytest.mark.parametrize("preload", [False, True])
def test_flask_under_gevent_answers_with_offsets(
    kafka: KafkaCluster, programs: Programs, topic: str, preload: bool
) -> None:
    pytest.importorskip("gevent")
    programs.write("shop", of="flask.Flask(__name__)")
    programs.add("gunicorn.conf", "from gevent import monkey; monkey.patch_all()" if preload else "")
    [port] = free_ports(1)
    options = ("--workers", "2", *(["--preload"] if preload else []), "--bind", f"127.0.0.1:{port}")

    with programs.run("gunicorn", "-k", "gevent", *options, "shop:app") as server:
        offsets = [post(port, order, server) for order in ORDERS]
        code = end(server)

    assert offsets == list(range(len(ORDERS)))
    assert values(kafka, topic) == ORDERS
    assert code == 0


@pytest.mark.parametrize("library", ["gevent", "eventlet"])
def test_a_program_that_patches_threads_too_late_gets_an_error(library: str) -> None:
    pytest.importorskip(library)
    patch = {"gevent": "gevent.monkey.patch_all()", "eventlet": "eventlet.monkey_patch()"}[library]
    module = {"gevent": "gevent.monkey", "eventlet": "eventlet"}[library]
    program = f"from ottla import Producer; import {module}; {patch}; Producer(bootstrap_servers='127.0.0.1:1')"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_GUARD, check=False
    )

    assert f"IllegalStateError: {library} has patched threading after ottla was imported" in ended.stderr


def test_a_worker_that_only_sends_loses_nothing_at_its_exit(
    kafka: KafkaCluster, programs: Programs, topic: str
) -> None:
    programs.write("shop", of="flask.Flask(__name__)")
    text = (programs.folder / "shop.py").read_text()
    lingering = text.replace("per_process(", "per_process(linger_ms=3_600_000, delivery_timeout_ms=7_200_000, ")
    programs.add("shop", lingering.replace("delivery.result(10).offset", "0 if delivery else 1"))
    [port] = free_ports(1)
    command = ("gunicorn", "--workers", "2", "--preload", "--bind", f"127.0.0.1:{port}", "shop:app")

    with programs.run(*command) as server:
        for order in ORDERS:
            post(port, order, server)
        code = end(server)

    assert sorted(map(bytes, filter(None, values(kafka, topic)))) == sorted(ORDERS)
    assert code == 0


@pytest.mark.parametrize(
    ("block", "application", "server_module"),
    [
        ("producer = ottla.per_process(bootstrap_servers=", "wsgi", "gunicorn"),
        ("producer = per_process(bootstrap_servers=", "asgi", "uvicorn"),
    ],
    ids=["wsgi", "asgi"],
)
def test_django_views_answer_with_offsets(
    kafka: KafkaCluster, programs: Programs, topic: str, block: str, application: str, server_module: str
) -> None:
    [text] = [each.text for each in blocks(PAGE) if block in each.text and "HttpRequest" in each.text]
    programs.write("views", of=text)
    call = f"from django.core.{application} import get_{application}_application as get\n\napplication = get()\n"
    programs.add("site_of_test", DJANGO + call)
    [port] = free_ports(1)
    options = {
        "gunicorn": ["--workers", "2", "--preload", "--bind", f"127.0.0.1:{port}"],
        "uvicorn": ["--host", "127.0.0.1", "--port", str(port), "--lifespan", "off"],
    }

    with programs.run(server_module, *options[server_module], "site_of_test:application") as server:
        offsets = [post(port, order, server) for order in ORDERS]
        end(server)

    assert offsets == list(range(len(ORDERS)))
    assert values(kafka, topic) == ORDERS


def test_tasks_of_celery_send_records(kafka: KafkaCluster, programs: Programs, topic: str) -> None:
    programs.write("shop", of='Celery("shop")')
    (programs.folder / "data_in").mkdir()
    (programs.folder / "data_out").symlink_to("data_in")  # so that the messages of clients arrive
    environment = {"CELERY_BROKER_URL": "filesystem://"}
    clients = "from shop import place_order\nfor number in range(20): place_order.delay(f'order {number}')"
    subprocess.run(
        [sys.executable, "-c", clients],
        cwd=programs.folder,
        env={**os.environ, **environment},
        check=True,
        timeout=HANG_GUARD,
    )

    with programs.run("celery", "-A", "shop", "worker", "--concurrency", "2", environment=environment) as worker:
        deadline = time.monotonic() + HANG_GUARD
        while len(values(kafka, topic)) < len(ORDERS):
            assert worker.poll() is None, "the worker has ended"
            assert time.monotonic() < deadline
            time.sleep(0.1)
        code = end(worker)

    assert sorted(map(bytes, filter(None, values(kafka, topic)))) == sorted(ORDERS)
    assert code == 0
