"""Results and attributes of plugins that batches and requests depend on, checked where the core first uses them."""

from __future__ import annotations

from typing import Final

from ottla.errors import InvalidPluginError, OttlaError, printable
from ottla.errors.plugin_origin import described, faults, origin_of
from ottla.errors.quoting import class_name
from ottla.interfaces import Columns, ColumnsKind, Compressor, Mechanism, RecordEncoder, Serializer, SupportsUseEncoder
from ottla.interfaces import supports as has_ability

KAFKAS_CODECS: Final = frozenset({1, 2, 3, 4})


def checked_compressor(compressor: Compressor, *, name: str | None) -> Compressor:
    """The compressor, whose codec is one of Kafka's."""
    codec_id = compressor.codec_id
    if not isinstance(codec_id, int) or codec_id not in KAFKAS_CODECS:
        shown = printable(repr(codec_id)) if isinstance(codec_id, int | str) else f"of type {class_name(codec_id)}"
        raise InvalidPluginError(
            f"compression.type={name}: codec_id {shown} is none of Kafka's: 1 gzip, 2 snappy, 3 lz4 or 4 zstd "
            f"({origin_of('compressor', compressor).name})"
        )
    return compressor


def checked_mechanism(mechanism: Mechanism) -> Mechanism:
    """The mechanism, whose name requests can carry."""
    name = mechanism.name
    if not isinstance(name, str) or not name or printable(name) != name:
        shown = printable(repr(name)) if isinstance(name, str) else f"of type {class_name(name)}"
        origin = origin_of("mechanism", mechanism)
        raise InvalidPluginError(
            f"the name {shown} of the {origin.name} cannot be that of a SASL mechanism, such as SCRAM-SHA-512; "
            f"{origin.remedy}"
        )
    return mechanism


def checked_encoder(encoder: RecordEncoder) -> RecordEncoder:
    """The encoder, whose `record_cost` is a number of bytes."""
    cost = encoder.record_cost
    if type(cost) is not int or cost < 0:
        shown = printable(repr(cost)) if isinstance(cost, int | float | str) else f"of type {class_name(cost)}"
        raise _fault(encoder, f"has a record_cost {shown}, not an int of at least 0")
    return encoder


def with_encoder(serializer: Serializer, encoder: RecordEncoder) -> Serializer:
    """The serializer, after passing the encoder to it if it uses the encoder's abilities."""
    if has_ability(serializer, SupportsUseEncoder):
        try:
            serializer.use_encoder(encoder)
        except OttlaError:
            raise
        except faults() as cause:
            origin = origin_of("serializer", serializer)
            raise InvalidPluginError(
                f"the {origin.name} failed in use_encoder: {described(cause)}; {origin.remedy}"
            ) from cause
    return serializer


def first_columns(encoder: RecordEncoder) -> Columns | None:
    """Columns of the encoder for records of `send`, with all methods, or None if it takes no such records."""
    columns = _columns(encoder, 1)
    # Not `isinstance`: since Python 3.12 it does not see what columns pass on with `__getattr__`.
    if columns is not None and not has_ability(columns, Columns):
        raise _fault(encoder, f"returned {class_name(columns)} in columns, which is no ottla.interfaces.Columns")
    return columns


def columns_of(encoder: RecordEncoder, limit: int) -> Columns:
    """New columns for records of `send`. Raises if the encoder, which has returned columns before, returns None."""
    columns = _columns(encoder, limit)
    if columns is None:
        raise _fault(encoder, "returned None in columns for records of send, after it had returned columns")
    return columns


def lacks_columns(encoder: RecordEncoder) -> InvalidPluginError:
    """The error for an encoder that a configuration names, but that takes no records of `send`."""
    return _fault(encoder, "returned None in columns for records of send")


def _columns(encoder: RecordEncoder, limit: int) -> Columns | None:
    try:
        return encoder.columns(ColumnsKind.OBJECTS, limit)
    except (OttlaError, MemoryError):  # a lack of memory is no fault of the encoder
        raise
    except faults() as cause:
        raise _fault(encoder, f"failed in columns: {described(cause)}") from cause


def _fault(encoder: RecordEncoder, what: str) -> InvalidPluginError:
    origin = origin_of("encoder", encoder)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
