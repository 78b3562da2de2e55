"""The options of a write: names, values, and options that are refused before any row is written."""
