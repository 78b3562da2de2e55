"""Whole tables: from anything with the Arrow C stream interface to batches. Needs pyarrow."""
