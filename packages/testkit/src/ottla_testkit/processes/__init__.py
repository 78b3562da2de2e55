"""Processes and ports of tests, which end with the test."""
