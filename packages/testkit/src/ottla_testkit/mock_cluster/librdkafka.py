"""The librdkafka inside the confluent-kafka wheel: its path, and the C signatures of its mock cluster."""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from pathlib import Path

from ottla_testkit.errors import MockUnavailableError

PRODUCER = 0  # rd_kafka_type_t

_HANDLE, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_INT16, _INT32, _INT64, _SIZE = ctypes.c_int16, ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t

# name (after rd_kafka_) -> result, arguments
SIGNATURES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "conf_new": (_HANDLE, ()),
    "conf_set": (_INT, (_HANDLE, _TEXT, _TEXT, _TEXT, _SIZE)),
    "new": (_HANDLE, (_INT, _HANDLE, _TEXT, _SIZE)),
    "destroy": (None, (_HANDLE,)),
    "err2str": (_TEXT, (_INT,)),
    "mock_cluster_new": (_HANDLE, (_HANDLE, _INT)),
    "mock_cluster_destroy": (None, (_HANDLE,)),
    "mock_cluster_bootstraps": (_TEXT, (_HANDLE,)),
    "mock_topic_create": (_INT, (_HANDLE, _TEXT, _INT, _INT)),
    "mock_topic_set_error": (None, (_HANDLE, _TEXT, _INT)),
    "mock_partition_set_leader": (_INT, (_HANDLE, _TEXT, _INT32, _INT32)),
    "mock_coordinator_set": (_INT, (_HANDLE, _TEXT, _TEXT, _INT32)),
    "mock_broker_set_down": (_INT, (_HANDLE, _INT32)),
    "mock_broker_set_up": (_INT, (_HANDLE, _INT32)),
    "mock_broker_set_rtt": (_INT, (_HANDLE, _INT32, _INT)),
    "mock_set_apiversion": (_INT, (_HANDLE, _INT16, _INT16, _INT16)),
    "mock_push_request_errors_array": (None, (_HANDLE, _INT16, _SIZE, ctypes.POINTER(_INT))),
    "mock_clear_request_errors": (None, (_HANDLE, _INT16)),
    "mock_start_request_tracking": (None, (_HANDLE,)),
    "mock_clear_requests": (None, (_HANDLE,)),
    "mock_get_requests": (ctypes.POINTER(_HANDLE), (_HANDLE, ctypes.POINTER(_SIZE))),
    "mock_request_destroy_array": (None, (ctypes.POINTER(_HANDLE), _SIZE)),
    "mock_request_id": (_INT32, (_HANDLE,)),
    "mock_request_api_key": (_INT16, (_HANDLE,)),
    "mock_request_timestamp": (_INT64, (_HANDLE,)),
}


def load() -> ctypes.CDLL:
    """Load the library and declare its signatures; reuse the library that confluent_kafka has loaded, if any."""
    place = library_path()
    library = ctypes.CDLL(place)
    for name, (result, arguments) in SIGNATURES.items():
        try:
            function = getattr(library, "rd_kafka_" + name)
        except AttributeError:
            raise MockUnavailableError(
                f"{place} lacks rd_kafka_{name}; upgrade: pip install -U confluent-kafka"
            ) from None
        function.restype, function.argtypes = result, arguments
    return library


def library_path() -> str:
    """Return the path of the librdkafka in confluent-kafka's wheel, or of the system's if that wheel has none.

    Raises MockUnavailableError if there is neither, or if confluent-kafka is not installed.
    """
    spec = importlib.util.find_spec("confluent_kafka")
    if spec is None or spec.origin is None:
        raise MockUnavailableError("the mock cluster needs librdkafka; try: pip install 'ottla-testkit[mock]'")
    package = Path(spec.origin).parent
    for folder in (package.parent / "confluent_kafka.libs", package / ".dylibs"):
        for library in sorted(folder.glob("librdkafka*")):
            return str(library)
    if system := ctypes.util.find_library("rdkafka"):
        return system
    raise MockUnavailableError(f"no librdkafka next to {package} nor in the system; install a wheel of confluent-kafka")
