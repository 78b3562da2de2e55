"""Checks that a topic can take records: it exists, this user may write to it, every partition has a leader."""

from __future__ import annotations

from ottla.doctor.cluster_view import ClusterView
from ottla.doctor.findings import Finding, Problem, Status, Step, listed
from ottla.errors import ErrorCode, counted, error_code, quoted
from ottla.protocol import MetadataResponseTopic
from ottla.protocol.topic_rights import may_write


def topic_finding(name: str, view: ClusterView) -> Finding:
    """The finding about the topic, by the broker's response."""
    problem = _problem(name, view)
    if problem is not None:
        return Finding.failed(Step.TOPIC, name, problem)
    assert view.topic is not None
    partitions = view.topic.partitions
    leaders = sorted({partition.leader_id for partition in partitions})
    message = f"{counted(len(partitions), 'partition')}, led by broker {listed(leaders)}"
    return Finding(step=Step.TOPIC, subject=name, status=Status.OK, message=message)


def _problem(name: str, view: ClusterView) -> Problem | None:
    topic = view.topic
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else error_code(topic.error_code)
    match code:
        case ErrorCode.NONE:
            assert topic is not None
            return _without_leaders(topic, view) or _read_only(topic)
        case ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return Problem(
                "the topic does not exist, or this user may not describe it",
                f"create {name!r}, correct the name, or allow the user DESCRIBE and WRITE on it",
            )
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return Problem("this user may not describe the topic", f"add an ACL for DESCRIBE and WRITE on {name!r}")
        case ErrorCode.INVALID_TOPIC_EXCEPTION:
            return Problem("no topic can have this name", "use 1 to 249 of a-z A-Z 0-9 . _ - in the topic's name")
        case _:
            return Problem(f"the broker refuses: {code.name}: {code.meaning}", "check the broker's log")


def _without_leaders(topic: MetadataResponseTopic, view: ClusterView) -> Problem | None:
    without = sorted(p.partition_index for p in topic.partitions if p.leader_id not in view.brokers)
    if not without:
        return None
    return Problem(
        f"of {counted(len(topic.partitions), 'partition')}, {len(without)} without a leader: {listed(without)}",
        "start the brokers that hold their replicas",
    )


def _read_only(topic: MetadataResponseTopic) -> Problem | None:
    if may_write(topic):
        return None
    return Problem(
        "this user may describe the topic, but not write to it", f"add an ACL for WRITE on {quoted(topic.name or '')}"
    )
