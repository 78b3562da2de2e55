"""What is said of a login that did not come about: what happened, to whom, and what helps. Never a secret.

What a broker says is quoted within bounds, for it may be anybody's words; what a strange mechanism's exception says is
not quoted at all, for it may hold the password.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Final

from ottla.errors import AuthenticationFailed, ConnectionFailed, MechanismNotEnabled, SessionExpired, printable
from ottla.interfaces import Mechanism

_MOST_NAMES: Final = 20


def not_enabled(mechanism: Mechanism, peer: str, offers: Sequence[str]) -> MechanismNotEnabled:
    """The broker does not take the mechanism."""
    return MechanismNotEnabled(
        f"{peer} does not offer the SASL mechanism {mechanism.name}; set sasl.mechanism to one that it offers: "
        f"{names(offers)}"
    )


def names(offers: Sequence[str]) -> str:
    """The mechanisms that a broker offers, as many as a line takes."""
    return printable(", ".join(offers[:_MOST_NAMES])) or "none"


def no_login(peer: str) -> AuthenticationFailed:
    """The listener is none for SASL."""
    return AuthenticationFailed(
        f"{peer} takes no login on this listener; set security.protocol to PLAINTEXT or SSL, or name the port of a "
        "listener for SASL"
    )


def refused(mechanism: Mechanism, peer: str, told: str) -> AuthenticationFailed:
    """The broker said no; *told* are its words."""
    return AuthenticationFailed(f"{peer} refused {_who(mechanism)}: {printable(told)}; {_remedy(mechanism)}")


def wordless(mechanism: Mechanism, peer: str, cause: ConnectionFailed) -> AuthenticationFailed:
    """The broker hung up in the middle of a login by bare tokens: it says no in no other way."""
    error = AuthenticationFailed(
        f"{peer} closed the connection during the login of {_who(mechanism)} and said nothing: the credentials may be "
        f"wrong, for old brokers do not say so; {_remedy(mechanism)}, or look into the broker's log"
    )
    error.__cause__ = cause
    return error


def interrupted(mechanism: Mechanism, cause: ConnectionFailed) -> ConnectionFailed:
    """The broker hung up in the middle of a login, though it knows words for a refusal."""
    error = ConnectionFailed(
        f"{cause} during the login of {_who(mechanism)}; it may be stopping, or is too busy: look into its log if this "
        "goes on"
    )
    error.__cause__ = cause
    return error


def expired(peer: str, cause: ConnectionFailed) -> SessionExpired:
    """The broker hung up, and the session was over."""
    error = SessionExpired(
        f"{peer} ended the session, whose time was over (connections.max.reauth.ms of the broker, or the token's own); "
        "if this comes often, see that new credentials can be had in time"
    )
    error.__cause__ = cause
    return error


def ended_while_renewing(mechanism: Mechanism, peer: str, cause: ConnectionFailed) -> SessionExpired:
    """The broker hung up while the session was being renewed."""
    error = SessionExpired(
        f"{peer} ended the session of {_who(mechanism)} while it was being renewed, and said nothing; the next try "
        f"begins a new one: if that fails too, {_remedy(mechanism)}"
    )
    error.__cause__ = cause
    return error


def endless(mechanism: Mechanism, peer: str, most: int) -> AuthenticationFailed:
    """No end in sight."""
    return AuthenticationFailed(
        f"the login by {mechanism.name} at {peer} did not end after {most} messages; is it a Kafka broker, and the "
        "mechanism the same on both sides?"
    )


def too_long(mechanism: Mechanism, what: str, most: int) -> AuthenticationFailed:
    """A message beyond what anybody takes."""
    return AuthenticationFailed(f"a message of {mechanism.name} is too long: {what}, at most {most} are allowed")


def speechless(mechanism: Mechanism) -> AuthenticationFailed:
    """The mechanism waits for a broker that waits for it."""
    return AuthenticationFailed(
        f"the mechanism {mechanism.name} has nothing to say to the broker, and is not done either; report this to the "
        "plugin's authors"
    )


def malformed(mechanism: Mechanism) -> AuthenticationFailed:
    """The mechanism gave no bytes."""
    return AuthenticationFailed(
        f"the mechanism {mechanism.name} gave no bytes for the broker; report this to the plugin's authors"
    )


def broken(mechanism: Mechanism, cause: BaseException) -> AuthenticationFailed:
    """The mechanism raised what is no error of ours: its type and place, for its words may be secret."""
    frames = traceback.extract_tb(cause.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return AuthenticationFailed(
        f"the mechanism {mechanism.name} failed: {type(cause).__name__}{where}; report this to the plugin's authors"
    )


def _who(mechanism: Mechanism) -> str:
    identity = getattr(mechanism, "identity", None)
    return f"user {identity!r} ({mechanism.name})" if identity else f"our {mechanism.name} credentials"


def _remedy(mechanism: Mechanism) -> str:
    return str(getattr(mechanism, "remedy", "check the credentials, and what the broker allows this user"))
