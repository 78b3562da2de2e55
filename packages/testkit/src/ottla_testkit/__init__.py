"""Kafka clusters, faults and time for tests of Ottla and its plugins.

Imports nothing: pytest loads this package everywhere it is installed. Import the modules by name.
"""

__version__ = "0.1.0"
