"""The first exchange on a connection: the transport's handshake, then ApiVersions.

Determines the problem if there is no response, or one in another protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from ottla.doctor.bounds import Bounds
from ottla.doctor.conversation import PEER, BrokerSession
from ottla.doctor.findings import Trouble
from ottla.doctor.tcp import Door, Open
from ottla.doctor.workers import side_by_side
from ottla.errors import (
    ConnectionFailedError,
    OttlaError,
    ProtocolError,
    ProtocolMismatchError,
    RequestTimeoutError,
    SecurityError,
    printable,
)
from ottla.interfaces import Transport
from ottla.network.api_versions import Offer, api_versions_request, offered_versions
from ottla.protocol import API_VERSIONS

_SECURITY: Final = "check security.protocol, and the port"
_ALIVE: Final = "look whether the broker is alive, and check security.protocol and the port"
_USUALLY: Final = "set security.protocol=SSL or SASL_SSL if this listener wants that, else check the port"


@attrs.frozen(kw_only=True)
class Greeted:
    """A broker that answered ApiVersions; the caller goes on with the session and closes it."""

    door: Door
    conversation: BrokerSession
    versions: Mapping[int, tuple[int, int]]
    details: Sequence[tuple[str, str]] = ()
    handshake_seconds: float
    seconds: float


@attrs.frozen(kw_only=True)
class NoHandshake:
    """The transport's handshake did not complete."""

    door: Door
    trouble: Trouble
    seconds: float


@attrs.frozen(kw_only=True)
class NotKafka:
    """After the handshake there was no response, or none that could be parsed."""

    door: Door
    trouble: Trouble
    details: Sequence[tuple[str, str]] = ()
    handshake_seconds: float
    seconds: float


Greeting: TypeAlias = Greeted | NoHandshake | NotKafka


def greet(opened: Sequence[Open], *, transport: Transport, bounds: Bounds) -> Sequence[Greeting]:
    """One greeting for each connection, in order."""
    answers = side_by_side(lambda one: _greet(one, transport, bounds), opened, bounds=bounds)
    late = Trouble("the transport did not return in time", "report this to the transport plugin's authors")
    return [
        answer or NoHandshake(door=one.door, trouble=late, seconds=0.0)
        for one, answer in zip(opened, answers, strict=True)
    ]


def _greet(opened: Open, transport: Transport, bounds: Bounds) -> Greeting:
    door, started = opened.door, bounds.clock()
    conversation: BrokerSession | None = None
    try:
        conversation = BrokerSession(
            opened.sock, transport=transport, host=door.address.host, port=door.server.port, bounds=bounds
        )
        conversation.begin()
        details = conversation.details()
    except Exception as error:  # including the plugin's: each one is a finding
        (conversation or opened.sock).close()
        seconds = bounds.clock() - started
        return NoHandshake(door=door, trouble=_unshaken(error, seconds=seconds), seconds=seconds)
    shaken = bounds.clock()
    try:
        offer = _ask_versions(conversation)
    except Exception as error:
        conversation.close()
        seconds = bounds.clock() - shaken
        trouble = unanswered(error, seconds=seconds, remedy=_USUALLY)
        return NotKafka(
            door=door, trouble=trouble, details=details, handshake_seconds=shaken - started, seconds=seconds
        )
    return Greeted(
        door=door,
        conversation=conversation,
        versions=offer.versions,
        details=details,
        handshake_seconds=shaken - started,
        seconds=bounds.clock() - shaken,
    )


def _ask_versions(conversation: BrokerSession) -> Offer:
    request, version = api_versions_request(), API_VERSIONS.max_version
    offer = offered_versions(version, conversation.ask(request, version))
    if offer.ask_again_with is None:
        return offer
    return offered_versions(offer.ask_again_with, conversation.ask(request, offer.ask_again_with))


def unanswered(error: Exception, *, seconds: float, remedy: str) -> Trouble:
    """The problem if a request got no response; *remedy* is for a peer that closed the connection."""
    match error:
        case ProtocolMismatchError():
            return Trouble.told_by(error, remedy=_SECURITY)
        case RequestTimeoutError():
            return Trouble(f"{PEER} took the connection and was silent for {seconds:.1f} s", _ALIVE)
        case SecurityError():  # in TLS 1.3 the server checks our certificate after the handshake
            return Trouble.told_by(error, remedy=remedy)
        case ConnectionFailedError() | ConnectionError():
            return Trouble(f"{PEER} closed the connection without an answer", remedy)
        case ProtocolError():
            response = Trouble.told_by(error, remedy=_SECURITY)
            return Trouble(f"{PEER} answered, but not as Kafka does ({response.said})", response.remedy)
        case OttlaError() | OSError():
            return Trouble.told_by(error, remedy=remedy)
        case _:
            return Trouble(
                f"the transport failed: {printable(repr(error))}", "report this to the transport plugin's authors"
            )


def _unshaken(error: Exception, *, seconds: float) -> Trouble:
    if isinstance(error, RequestTimeoutError):
        return Trouble(f"the handshake did not end within {seconds:.1f} s", _SECURITY)
    if isinstance(error, OSError | OttlaError):
        response = Trouble.told_by(error, remedy=_SECURITY)
        return Trouble(f"the handshake failed: {response.said}", response.remedy)
    return unanswered(error, seconds=seconds, remedy=_SECURITY)
