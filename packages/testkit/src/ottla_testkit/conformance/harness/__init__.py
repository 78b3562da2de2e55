"""What the conformance suites are built from."""
