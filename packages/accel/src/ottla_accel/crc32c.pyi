from typing import Final

from ottla.interfaces import Buffer

hardware_based: Final[bool]

def crc32c(data: Buffer, crc: int = 0) -> int: ...
def crc32c_by_tables(data: Buffer, crc: int = 0) -> int: ...
