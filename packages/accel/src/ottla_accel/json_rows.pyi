from collections.abc import Callable, Sequence
from typing import Any

from ottla_accel.columns import Bytes

def objects(
    names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
) -> tuple[Bytes, Bytes]: ...
