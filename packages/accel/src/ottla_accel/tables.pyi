from array import array
from collections.abc import Iterator
from typing import Any

from ottla.interfaces import Cut, TableRows

def cut_rows(rows: TableRows, partitions: Any | None, *, max_bytes: int) -> Iterator[Cut]: ...
def murmur2_partitions(keys: Any, partitions: int) -> array[int]: ...
