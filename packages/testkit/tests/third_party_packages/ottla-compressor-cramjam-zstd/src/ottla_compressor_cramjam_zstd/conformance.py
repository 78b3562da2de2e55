"""The levels of this compressor for its conformance suite; `ottla plugins check` uses them, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

from ottla_testkit.conformance import CompressorConformance


class CramjamZstdConformance(CompressorConformance):
    """All requirements for a compressor."""

    levels = (-131072, -7, -1, 1, 3, 19, 22)  # what users may set as compression.zstd.level
