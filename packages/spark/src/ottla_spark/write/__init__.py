"""Writing rows at least once: the writers and tasks that Spark calls, and the way of a row to the producer."""
