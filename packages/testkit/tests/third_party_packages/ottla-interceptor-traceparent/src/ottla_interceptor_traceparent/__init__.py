"""The interceptor for `interceptor.classes=traceparent`."""

from ottla_interceptor_traceparent.plugin import TraceparentInterceptor

__all__ = ["TraceparentInterceptor"]
