"""Processes and ports of the tests' own, which end with the test."""
