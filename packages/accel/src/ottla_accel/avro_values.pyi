from collections.abc import Callable
from typing import Any

from ottla.interfaces import AvroType

def avro_values(avro_type: AvroType) -> Callable[[bytes, Any], bytes | None]: ...
