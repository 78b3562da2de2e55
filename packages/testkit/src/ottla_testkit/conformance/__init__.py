"""What plugins must keep, as tests that their authors inherit."""

from ottla_testkit.conformance.transport import TransportConformance

__all__ = ["TransportConformance"]
