"""Sending of whole tables: anything with the Arrow C stream interface is made into batches. Needs pyarrow."""
