from typing import Final

VERSION: Final[int]
SLOTS: Final[tuple[str, ...]]
METADATA_ITEMS: Final[tuple[str, ...]]

def check() -> None: ...
def offsets() -> tuple[int, ...]: ...
