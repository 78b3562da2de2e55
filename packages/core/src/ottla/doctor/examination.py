"""The examination: the order of the steps, and the steps that are skipped because of earlier findings."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.config import SecurityProtocol
from ottla.doctor import bootstrap, configuration, security
from ottla.doctor.advertised import advertised
from ottla.doctor.bounds import Bounds
from ottla.doctor.cluster_view import ClusterView, ask_clusters, several_clusters
from ottla.doctor.configuration import Checked
from ottla.doctor.findings import Examination, Finding, Status, Step, excused
from ottla.doctor.handshake import KafkaBroker
from ottla.doctor.names import Server
from ottla.doctor.sample_record import send_record
from ottla.doctor.topic import topic_finding

DEFAULT_TIMEOUT: Final = 30.0
"""Seconds for the whole examination."""


def examine(
    config: Mapping[str, Any],
    /,
    *,
    topic: str | None = None,
    send: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    on_finding: Callable[[Finding], object] | None = None,
) -> Examination:
    """Check everything between this program and an acknowledged record; takes at most about *timeout* seconds.

    *config* is that of a producer. *topic* is checked, never created; *send* puts one record into it. *on_finding*
    is called with each finding immediately. Problems are findings, and are not raised.
    """
    steps = _Steps(config, topic=topic, send=send, bounds=Bounds.of(timeout, time.monotonic))
    findings: list[Finding] = []
    with contextlib.closing(steps.findings()) as found:  # also if `on_finding` raises
        for finding in found:
            findings.append(finding)
            if on_finding is not None:
                on_finding(finding)
    return Examination(findings=tuple(findings))


@attrs.frozen(kw_only=True)
class _Seen:
    """The cluster as the first of `servers` describes it, those that describe it, and the brokers that are lost."""

    view: ClusterView
    servers: Sequence[Server]
    unreachable: frozenset[int] = frozenset()


_OF_ANY_BYTES: Final = ("bytes", "string")
"""Serializers whose consumers can read any text."""


class _Steps:
    """One run through the steps."""

    def __init__(self, settings: Mapping[str, Any], *, topic: str | None, send: bool, bounds: Bounds) -> None:
        self._settings = settings
        self._topic = topic
        self._send = send
        self._bounds = bounds

    def findings(self) -> Generator[Finding, None, None]:
        checked = yield from configuration.checked(self._settings, clock=self._bounds.clock)
        if checked is None:
            yield from self._skipped(Step.NAMES, "the configuration cannot be used")
            return
        self._bounds = attrs.evolve(self._bounds, answer_bytes=checked.connection.receive_message_max_bytes)
        try:
            yield from self._outside(checked)
        finally:
            checked.close()

    def _outside(self, checked: Checked) -> Iterator[Finding]:
        """The steps up to the first response of a broker, then the others."""
        endpoints = yield from bootstrap.resolved(checked, self._bounds)
        if not endpoints:
            yield from self._skipped(Step.TCP, "no bootstrap server has an address")
            return
        opened = yield from bootstrap.connected(endpoints, self._bounds)
        if not opened:
            yield from self._skipped(Step.HANDSHAKE, "no bootstrap server accepted a connection")
            return
        brokers = yield from bootstrap.brokers_found(opened, checked, self._bounds)
        try:
            yield from self._inside(brokers, checked)
        finally:
            for broker in brokers:
                broker.session.close()

    def _inside(self, brokers: Sequence[KafkaBroker], checked: Checked) -> Iterator[Finding]:
        """The steps that send requests to the cluster."""
        if not brokers:
            yield from self._skipped(Step.SASL, "no bootstrap server sent a Kafka response")
            return
        protocol = checked.connection.security_protocol
        admitted = yield from security.sasl(protocol, checked.mechanism, brokers, self._bounds)
        if not admitted:
            yield from self._skipped(Step.METADATA, "no bootstrap server accepted the login")
            return
        seen = yield from self._cluster(admitted, protocol)
        if not isinstance(seen, _Seen):
            yield from self._skipped(Step.ADVERTISED, seen)
            return
        found = advertised(seen.view, transport=checked.transport, protocol=protocol, bounds=self._bounds)
        yield from (found[number] for number in sorted(found))
        unreachable = frozenset(number for number, one in found.items() if one.status is Status.FAILED)
        yield from self._on_topic(attrs.evolve(seen, unreachable=unreachable), checked)

    def _cluster(
        self, brokers: Sequence[KafkaBroker], protocol: SecurityProtocol
    ) -> Generator[Finding, None, _Seen | str]:
        """The first usable metadata of these brokers; the reason if there is none, or if it is of several clusters."""
        answers = ask_clusters(brokers, topic=self._topic, protocol=protocol, bounds=self._bounds)
        mixed = several_clusters(answers)
        views = {answer.endpoint.server: view for answer in answers if isinstance(view := answer.outcome, ClusterView)}
        for answer in answers:
            subject, seconds, outcome = str(answer.endpoint), answer.seconds, answer.outcome
            if not isinstance(outcome, ClusterView):
                finding = Finding.failed(Step.METADATA, subject, outcome, seconds=seconds)
                yield excused(finding, answer.endpoint.server in views)
            elif mixed is None:
                yield Finding(
                    step=Step.METADATA, subject=subject, status=Status.OK, seconds=seconds, message=str(outcome)
                )
        if mixed is not None:  # in place of the single findings: in this step nothing passed
            seconds = max(answer.seconds for answer in answers)
            yield Finding.failed(Step.METADATA, bootstrap.SETTING, mixed, seconds=seconds)
            return f"{bootstrap.SETTING} names several clusters"
        if not views:
            return "no bootstrap server returned metadata of its cluster"
        return _Seen(view=next(iter(views.values())), servers=list(views))

    def _on_topic(self, seen: _Seen, checked: Checked) -> Iterator[Finding]:
        if self._topic is None:
            yield from self._skipped(Step.TOPIC, "")
            return
        finding = topic_finding(self._topic, seen.view)
        yield finding
        if finding.status is not Status.OK:
            yield from self._skipped(Step.RECORD, "no record can be written to the topic")
            return
        assert seen.view.topic is not None
        lost = sorted({p.leader_id for p in seen.view.topic.partitions} & seen.unreachable)
        if lost or not self._send:
            yield from self._skipped(Step.RECORD, f"broker {lost[0]} of this topic cannot be reached" if lost else "")
            return
        if checked.value_serializer not in _OF_ANY_BYTES:
            yield from self._skipped(
                Step.RECORD,
                f"the test record is text, and consumers of values by value.serializer={checked.value_serializer} may "
                "be unable to read it; with value.serializer=bytes it is sent",
            )
            return
        yield send_record(self._topic, self._settings, servers=seen.servers, bounds=self._bounds)

    def _skipped(self, first: Step, because: str) -> Iterator[Finding]:
        """The findings for all steps from *first* on: not requested, or skipped *because* of an earlier step."""
        steps = list(Step)
        for step in steps[steps.index(first) :]:
            if step in (Step.TOPIC, Step.RECORD) and self._topic is None:
                yield Finding.skipped(step, "no topic was named")
            elif step is Step.RECORD and not self._send:
                yield Finding.skipped(step, "no test record was requested")
            else:
                yield Finding.skipped(step, because)
