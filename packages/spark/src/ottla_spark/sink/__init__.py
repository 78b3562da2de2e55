"""At-least-once writes: the writers and tasks that Spark calls, and the steps from a row to the producer."""
