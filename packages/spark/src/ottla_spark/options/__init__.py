"""The options of a write: names, values, and what is refused before any row is written."""
