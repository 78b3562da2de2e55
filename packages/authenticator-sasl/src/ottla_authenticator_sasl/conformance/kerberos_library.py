"""A replacement for the parts of the library `gssapi` that Ottla uses; the real one needs Kerberos and a KDC."""

from __future__ import annotations

import enum
import types
from typing import Any


class GSSError(Exception):
    """Like `gssapi.exceptions.GSSError`."""


class RequirementFlag(enum.IntEnum):
    """Like `gssapi.RequirementFlag`."""

    mutual_authentication = 2
    out_of_sequence_detection = 8
    integrity = 32


class Context:
    """Like `gssapi.SecurityContext`: one token in each direction, and wrapping adds a prefix."""

    def __init__(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        if token is None:
            return b"AP-REQ"
        if token != b"AP-REP":
            raise GSSError("Major (655360): A token was invalid")
        self.complete = True
        return None

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return types.SimpleNamespace(message=b"wrapped:" + message)

    def unwrap(self, message: bytes) -> Any:
        if not message.startswith(b"wrapped:"):
            raise GSSError("Major (393216): A token had an invalid MIC")
        return types.SimpleNamespace(message=message.removeprefix(b"wrapped:"))


def recorded(**arguments: Any) -> Any:
    return types.SimpleNamespace(**arguments)


def library_of_kerberos() -> Any:
    """Return a replacement for the module `gssapi`."""
    module: Any = types.ModuleType("gssapi")
    module.exceptions = types.SimpleNamespace(GSSError=GSSError)
    module.RequirementFlag = RequirementFlag
    module.SecurityContext = Context
    module.NameType = types.SimpleNamespace(hostbased_service="service", kerberos_principal="principal")
    module.MechType = types.SimpleNamespace(kerberos="kerberos")
    module.Name = lambda base, name_type: (base, name_type)
    module.Credentials = recorded
    return module
