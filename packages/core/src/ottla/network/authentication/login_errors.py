"""Errors of failed logins: what happened, at which broker, and a remedy. They never contain secrets.

A broker's text is shortened and escaped, because brokers are not trusted. An exception of a third-party mechanism is
not quoted at all, because it may contain the password.
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from typing import Final

from ottla.errors import (
    AuthenticationError,
    ConnectionFailedError,
    ConnectionRetiredError,
    SessionExpiredError,
    UnsupportedSaslMechanismError,
    printable,
    quoted,
)
from ottla.errors.plugin_origin import PluginOrigin, faults, origin_of
from ottla.interfaces import Mechanism, SupportsIdentity, SupportsRemedy, supports

_MAX_NAMES: Final = 20


def not_enabled(mechanism: Mechanism, peer: str, offers: Sequence[str]) -> UnsupportedSaslMechanismError:
    """The broker does not offer the mechanism."""
    return UnsupportedSaslMechanismError(
        f"{peer} does not offer the SASL mechanism {mechanism.name}; set sasl.mechanism to one that it offers: "
        f"{names(offers)}"
    )


def names(offers: Sequence[str]) -> str:
    """The mechanisms that a broker offers, as many as fit on a line."""
    return printable(", ".join(offers[:_MAX_NAMES])) or "none"


def no_login(peer: str) -> AuthenticationError:
    """The listener does not use SASL."""
    return AuthenticationError(
        f"{peer} does not use SASL on this listener; set security.protocol to PLAINTEXT or SSL, or name the port of a "
        "listener for SASL"
    )


def refused(mechanism: Mechanism, peer: str, response: str) -> AuthenticationError:
    """The broker refused the login; *response* is its message."""
    return AuthenticationError(f"{peer} refused {_login_of(mechanism)}: {printable(response)}; {_remedy(mechanism)}")


def closed_without_answer(mechanism: Mechanism, peer: str, cause: ConnectionFailedError) -> AuthenticationError:
    """The broker closed the connection during a login without SaslAuthenticate; it has no other way to refuse one."""
    error = AuthenticationError(
        f"{peer} closed the connection during the login of {_login_of(mechanism)} and gave no reason: the credentials "
        f"may be wrong, which old brokers do not report; {_remedy(mechanism)}, or check the broker's log"
    )
    error.__cause__ = cause
    return error


def interrupted(mechanism: Mechanism, cause: ConnectionFailedError) -> ConnectionFailedError:
    """The broker closed the connection during a login, although it could have sent an error."""
    error = ConnectionFailedError(
        f"{cause} during the login of {_login_of(mechanism)}; it may be stopping, or is too busy: check its log if "
        "this continues"
    )
    error.__cause__ = cause
    return error


def closed_after_login(mechanism: Mechanism, cause: ConnectionFailedError) -> ConnectionFailedError:
    """The broker accepted the login, and closed the connection without a response to any request."""
    error = ConnectionFailedError(
        f"{cause} at the first request after it had accepted the login of {_login_of(mechanism)}; it may be stopping, "
        "or the credentials have expired by its clock: check both clocks if this continues"
    )
    error.__cause__ = cause
    return error


def expired(peer: str, cause: ConnectionFailedError) -> SessionExpiredError:
    """The broker closed the connection after the session had expired."""
    error = SessionExpiredError(
        f"{peer} ended the session, which had expired (connections.max.reauth.ms of the broker, or the token's own); "
        "if this happens often, make sure that new credentials are available in time"
    )
    error.__cause__ = cause
    return error


def ended_while_renewing(mechanism: Mechanism, peer: str, cause: ConnectionFailedError) -> SessionExpiredError:
    """The broker closed the connection during the renewal of the session."""
    error = SessionExpiredError(
        f"{peer} ended the session of {_login_of(mechanism)} while it was being renewed, and gave no reason; the "
        f"next attempt logs in on a new connection. If that fails too, {_remedy(mechanism)}"
    )
    error.__cause__ = cause
    return error


def another_user(peer: str, before: str, now: str) -> ConnectionRetiredError:
    """The credentials are those of another user than the session's, which Kafka never lets change."""
    return ConnectionRetiredError(
        f"the session at {peer} is that of user {quoted(before)}, and the user is now {quoted(now)}, who logs in on a "
        "new connection"
    )


def too_many_messages(mechanism: Mechanism, peer: str, limit: int) -> AuthenticationError:
    """The login took more than *limit* messages."""
    return AuthenticationError(
        f"the login by {mechanism.name} at {peer} did not end after {limit} messages; is it a Kafka broker, and is the "
        "mechanism the same on both sides?"
    )


def too_long(mechanism: Mechanism, what: str, max_bytes: int) -> AuthenticationError:
    """A message is longer than allowed."""
    return AuthenticationError(f"a message of {mechanism.name} is too long: {what}, at most {max_bytes} are allowed")


def deadlocked(mechanism: Mechanism) -> AuthenticationError:
    """The mechanism waits for the broker, which waits for the mechanism."""
    return AuthenticationError(
        f"{_plugin(mechanism)} sent no message to the broker, but has not finished; {_origin(mechanism).remedy}"
    )


def malformed(mechanism: Mechanism) -> AuthenticationError:
    """The mechanism did not return bytes."""
    return AuthenticationError(f"{_plugin(mechanism)} returned no bytes for the broker; {_origin(mechanism).remedy}")


def broken(mechanism: Mechanism, cause: BaseException) -> AuthenticationError:
    """The mechanism raised an exception that is not Ottla's. Its text may have secrets, so it is not quoted."""
    frames = traceback.extract_tb(cause.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return AuthenticationError(
        f"{_plugin(mechanism)} failed: {type(cause).__name__}{where}; {_origin(mechanism).remedy}"
    )


def slow(mechanism: Mechanism, *, begun: bool) -> str:
    """What a login waits for on our side, for the error of a time-out. *begun*: the mechanism was called for it."""
    what = "had not finished" if begun else "was still busy with other logins"
    return f"the mechanism {mechanism.name} {what}"


def _plugin(mechanism: Mechanism) -> str:
    return f"the mechanism {mechanism.name} ({_origin(mechanism).name})"


def _origin(mechanism: Mechanism) -> PluginOrigin:
    return origin_of("mechanism", mechanism)


def user_of(mechanism: Mechanism) -> str | None:
    """The user of the mechanism's latest login, if it names one."""
    try:
        return (mechanism.identity or None) if supports(mechanism, SupportsIdentity) else None
    except faults():  # of a property: neither the login nor its error must be lost
        return None


def _login_of(mechanism: Mechanism) -> str:
    user = user_of(mechanism)
    return f"our {mechanism.name} credentials" if user is None else f"user {user!r} ({mechanism.name})"


def _remedy(mechanism: Mechanism) -> str:
    try:
        if supports(mechanism, SupportsRemedy):
            return str(mechanism.remedy)
    except faults():  # as above
        pass
    return "check the credentials, and what the broker allows this user"
