"""Parts of the conformance suites."""
