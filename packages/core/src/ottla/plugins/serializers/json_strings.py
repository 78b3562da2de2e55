"""Text as JSON strings, for single values and for the names of fields in columns."""

from __future__ import annotations

import json
from typing import Final

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(0x20)},
    **str.maketrans({"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\"}),
}


def quoted_text(text: str) -> str:
    """Return the text as a JSON string, with escapes in upper case, as Jackson and Spark write them."""
    quoted = json.dumps(text, ensure_ascii=False)
    return f'"{text.translate(_ESCAPES)}"' if "\\u" in quoted else quoted
