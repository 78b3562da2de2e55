from collections.abc import Callable, Sequence
from typing import Any

def objects(
    names: Sequence[str], columns: Sequence[Any], *, count: int, text: Callable[[Any], tuple[Any, str]]
) -> tuple[Any, Any]: ...
