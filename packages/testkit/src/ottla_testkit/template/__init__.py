"""Templates of new plugins: a package that works, and passes its suite."""

from ottla_testkit.template.package import Package

__all__ = ["Package"]
