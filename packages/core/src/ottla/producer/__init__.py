"""The public producer, and the construction of its parts."""
