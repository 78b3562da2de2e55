import weakref
from collections.abc import Callable
from datetime import datetime
from typing import Any

from ottla import Delivery, Producer
from ottla.accumulator.topic_routes import Route

class QuickSend:
    def __init__(
        self,
        *,
        routes: dict[str, Route],
        producer: weakref.ref[Producer],
        slow: Callable[..., Delivery],
        delivery: type[Delivery],
        sticky: bool,
        hashes: bool,
        ignores_keys: bool,
    ) -> None: ...
    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        headers: Any = (),
        partition: int | None = None,
        timestamp_ms: int | datetime | None = None,
        on_delivery: Any = None,
        timeout: float | None = None,
    ) -> Delivery: ...
