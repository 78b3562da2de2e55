"""Queued records: batches by partition, the memory they hold, and the results they get."""
