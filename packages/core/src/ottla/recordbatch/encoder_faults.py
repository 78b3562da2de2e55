"""Errors of encoders that break their contract, with plugin and package."""

from __future__ import annotations

from ottla.errors import InvalidPluginError
from ottla.errors.plugin_origin import described, origin_of


def encoder_failed(made: object, method: str, cause: BaseException) -> InvalidPluginError:
    """The error for an exception of a method of an encoder, or of its columns."""
    return encoder_fault(made, f"failed in {method}: {described(cause)}")


def encoder_fault(made: object, what: str) -> InvalidPluginError:
    """The error for an encoder, or its columns, that did *what*."""
    origin = origin_of("encoder", made)
    return InvalidPluginError(f"the {origin.name} {what}; {origin.remedy}")
