"""The serializer for `key.serializer=msgpack` and `value.serializer=msgpack`."""

from ottla_serializer_msgpack.plugin import MsgpackSerializer

__all__ = ["MsgpackSerializer"]
