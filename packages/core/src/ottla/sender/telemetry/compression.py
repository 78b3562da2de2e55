"""Compression of telemetry payloads: the broker's order of codecs, as far as they are installed.

The codecs are the producer's own compressor and the built-in ones, which need no setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from ottla.errors import InvalidPluginError, PluginNotFoundError
from ottla.errors.robust_logger import robust_logger
from ottla.interfaces import Compressor
from ottla.recordbatch.codecs import NONE, compressed

logger = robust_logger(__name__)

_BUILT_IN: Final[Mapping[int, str]] = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class TelemetryCompressors:
    """The codecs that one producer can compress its metrics with. For one thread at a time."""

    def __init__(self, own: Compressor | None) -> None:
        self._found: dict[int, Compressor | None] = {} if own is None else {own.codec_id: own}

    def compress(self, content: bytes, accepted: Sequence[int]) -> tuple[int, bytes]:
        """Compress with the first codec of *accepted* that works here; return its id and the result."""
        for codec_id in accepted:
            if codec_id == NONE:
                break
            compressor = self._find(codec_id)
            if compressor is None:
                continue
            try:
                return codec_id, compressed(compressor, [content])
            except InvalidPluginError as error:
                logger.warning("telemetry does without the codec %d: %s", codec_id, error)
                self._found[codec_id] = None
        return NONE, content

    def _find(self, codec_id: int) -> Compressor | None:
        """The compressor of a codec, or None if there is none, or it has failed."""
        if codec_id not in self._found:
            self._found[codec_id] = _built_in(codec_id)
        return self._found[codec_id]


def _built_in(codec_id: int) -> Compressor | None:
    """A built-in compressor; None if its library is not installed."""
    name = _BUILT_IN.get(codec_id)
    if name is None:
        return None
    try:
        made: Compressor = import_module(f"ottla.plugins.compressors.{name}").ottla_compressor()
    except PluginNotFoundError as error:
        logger.debug("telemetry does without %s: %s", name, error)
        return None
    return made
