"""State of a Python worker between tasks: producers, and settings of the process."""
