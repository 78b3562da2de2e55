"""The encoder for `record.encoder=plain`."""

from ottla_encoder_plain.plugin import PlainEncoder

__all__ = ["PlainEncoder"]
