"""The beginning of a new plugin: a package that works, and passes its suite."""

from ottla_testkit.template.package import Package

__all__ = ["Package"]
