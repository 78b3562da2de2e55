"""The conformance classes for `ottla plugins check`, which imports them and the testkit."""
