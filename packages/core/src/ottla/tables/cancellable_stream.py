"""A table's stream that ends when its call is cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from ottla.concurrency.cancellation import Cancellation


@attrs.frozen(eq=False)
class CancellableStream:
    """The batches of *stream* until the call is cancelled. It takes no further one then, which may come late."""

    stream: Any
    cancellation: Cancellation

    @property
    def schema(self) -> Any:
        """The schema of the stream."""
        return self.stream.schema

    def __iter__(self) -> Iterator[Any]:
        """Yield record batches."""
        for batch in self.stream:
            if self.cancellation.error is not None:
                return
            yield batch
