"""The versions of `send`: one signature, and which settings choose which."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest

from ottla import Producer, ProducerClosedError, RecordMetadata
from ottla.accumulator.append_permission import AppendPermission
from ottla.concurrency.environment import SYSTEM
from ottla.plugins.former_interceptors import AdaptedInterceptor
from ottla.producer.interceptors import Interceptors
from ottla.producer.send_signature import Send, weak_send
from ottla_testkit.mock_producer import MockProducer
from simulated_producer import simulated


class Passive:
    """An interceptor that changes nothing."""

    def on_send(self, _topic: str, *record: Any) -> Any:
        return record

    def on_acknowledgement(self, _metadata: RecordMetadata, _error: Exception | None) -> None:
        """Ignore it."""


def without_self(function: Any) -> inspect.Signature:
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


class Owner:
    """An object with a `send`."""

    def send(self, *_arguments: Any, **_options: Any) -> str:
        return "sent"


def test_all_versions_of_send_have_the_same_signature() -> None:
    owner = Owner()
    expected = without_self(Send.__call__)
    interceptors = Interceptors({"passive": AdaptedInterceptor(Passive())}, environment=SYSTEM)

    assert without_self(Producer.send) == expected
    assert without_self(MockProducer.send) == expected
    assert inspect.signature(weak_send(owner)) == expected
    assert inspect.signature(interceptors.around(weak_send(owner), AppendPermission(None))) == expected


@pytest.mark.parametrize("interceptors", [False, True])
@pytest.mark.parametrize(
    ("encoder", "config", "version"),
    [
        ("native", {}, "QuickSend.send"),
        ("native", {"value.serializer": "string"}, "Producer.send"),
        ("native", {"key.serializer": "string"}, "Producer.send"),
        ("python", {}, "Producer.send"),
    ],
)
def test_encoder_serializers_and_interceptors_decide_which_send_is_used(
    encoder: str, config: dict[str, Any], version: str, interceptors: bool
) -> None:
    pytest.importorskip("ottla_accel", exc_type=ImportError)
    plugins = {"interceptors": {"passive": Passive()}} if interceptors else {}
    with simulated(1, config={"record.encoder": encoder, **config}, plugins=plugins) as simulation:
        send: Any = simulation.producer.send

        if interceptors:
            assert send.__qualname__ == "Interceptors.around.<locals>.intercepted"
            [inner] = [each.cell_contents for each in send.__closure__ if callable(each.cell_contents)]
            send = inner
            version = version.replace("Producer.send", "weak_send.<locals>.send")
        assert send.__qualname__ == version


def test_a_send_that_a_subclass_overrides_is_used() -> None:
    pytest.importorskip("ottla_accel", exc_type=ImportError)

    assert MockProducer(record_encoder="native").send.__func__ is MockProducer.send  # type: ignore[attr-defined]


def test_a_send_that_a_test_has_put_into_the_class_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ottla_accel", exc_type=ImportError)
    monkeypatch.setattr(Producer, "send", Owner.send)

    with simulated(1, config={"record.encoder": "native"}) as simulation:
        sent: object = simulation.producer.send("orders", b"v")

    assert sent == "sent"


def test_a_weak_send_does_not_keep_its_producer() -> None:
    owner = Owner()
    send: Any = weak_send(owner)
    reference = weakref.ref(owner)
    assert send("t") == "sent"
    del owner
    gc.collect()

    assert reference() is None
    with pytest.raises(ProducerClosedError, match="the producer was garbage-collected"):
        send("t")
