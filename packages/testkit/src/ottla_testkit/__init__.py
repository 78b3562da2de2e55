"""Kafka clusters, faults and time for tests of Ottla and its plugins.

Imports nothing: pytest loads this package everywhere it is installed. Import the modules by name.

The modules `kafka_cluster`, `mock_cluster`, `mock_producer`, `proxy`, `manual_clock`, `conformance` and `errors` are
public. All other modules are private unless a page of the documentation names them.
"""

__version__ = "0.1.0"
