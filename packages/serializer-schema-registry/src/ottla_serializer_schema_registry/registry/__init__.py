"""The schema registry: HTTP, repetitions, its interface, and schemas that refer to others."""
