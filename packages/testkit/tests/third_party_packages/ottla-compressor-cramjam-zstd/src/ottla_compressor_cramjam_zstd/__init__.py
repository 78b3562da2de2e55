"""The compressor for `compression.type=cramjam-zstd`."""

from ottla_compressor_cramjam_zstd.plugin import CramjamZstdCompressor

__all__ = ["CramjamZstdCompressor"]
