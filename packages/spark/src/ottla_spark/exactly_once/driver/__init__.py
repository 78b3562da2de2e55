"""Decisions of the driver: plan, commit and recover a batch. No Spark and no socket."""
