"""The names of the formats that `ottla send` reads. No import of pyarrow, which the command's help does without."""

from __future__ import annotations

from typing import Final

LINES, NDJSON, CSV, PARQUET, ARROW = "lines", "ndjson", "csv", "parquet", "arrow"
FORMATS: Final = (LINES, NDJSON, CSV, PARQUET, ARROW)
