"""Log lines about metadata: unusable topics, partitions without a leader, and brokers that do not answer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from ottla.errors import BrokerError, ErrorCode, OttlaError, counted, quoted
from ottla.errors.outages import SHOWN, Outages, OutageUpdate
from ottla.errors.robust_logger import robust_logger
from ottla.network.cluster import NO_LEADER, Broker, Topic
from ottla.network.topic_errors import FINAL_TOPIC_ERRORS, refusal

logger = robust_logger(__name__)

LOGGED_AFTER: Final = 5.0
"""Seconds after which a line is written if metadata is due and no broker can be asked for it."""

_MAX_MOVES: Final = 20
"""The maximum number of brokers that leave or join in one response and get a line each; a response may name 20,000."""

_CLUSTER: Final = "the cluster"
_LEFT_OUT: Final = "brokers that are left out"
_RAISED_AT_ONCE: Final = frozenset(code.name for code in FINAL_TOPIC_ERRORS)


class MetadataLog:
    """The topics that cannot be used now, and the state of metadata requests. For the I/O thread, without a lock."""

    def __init__(self, *, client_id: str) -> None:
        self._client_id = client_id
        self._topics: Outages[str, str] = Outages()
        self._cluster: Outages[str, str] = Outages()
        self._listed: Outages[str, str] = Outages(repeat_by_failure=True)
        self._wanted_since: float | None = None
        self._unusable: OttlaError | None = None  # the last response, which has its line
        self._brokers: Mapping[int, Broker] = {}
        self._cluster_id: str | None = None
        self.active = False
        """True while there is a problem, or a line is still to be written."""

    def wanted(self, last_error: OttlaError | None, now: float, *, setup: Callable[[], str]) -> None:
        """Note that metadata is due and no broker can be asked. *setup* says what a connection waits for."""
        if self._wanted_since is None:
            self._wanted_since = now
        elif now - self._wanted_since >= LOGGED_AFTER and (last_error is None or last_error is not self._unusable):
            detail = f"last error: {last_error}" if last_error is not None else setup()
            why = "no broker can be asked" + (f"; {detail}" if detail else "")
            self.active = True
            self._cluster.failed(_CLUSTER, "unasked", why, now, started_at=self._wanted_since)

    def failed(self, error: OttlaError, now: float) -> None:
        """Note a response that cannot be used."""
        kind = error.code.name if isinstance(error, BrokerError) else type(error).__name__
        self.active, self._unusable = True, error
        self._cluster.failed(_CLUSTER, kind, str(error).rstrip("."), now, started_at=self._wanted_since)

    def note_cluster(self, cluster_id: str | None) -> None:
        """Warn if a response is from another cluster than the last one."""
        if cluster_id is None:
            return
        if self._cluster_id not in (None, cluster_id):
            logger.warning(
                "%s: the brokers are those of another cluster now, %s, and were those of %s; what waits is sent there "
                "with a new producer id, also if only the response from the other cluster was lost; a transactional "
                "producer fails",
                self._client_id,
                quoted(cluster_id),
                quoted(self._cluster_id or ""),
            )
        self._cluster_id = cluster_id

    def note_other_topics(self, topics: Collection[str]) -> None:
        """Warn that no topic has kept its id since the response before, on a connection that is newer than that."""
        logger.warning(
            "%s: no topic in use has kept its id (%s): their cluster was set up again under its id, or they were "
            "deleted and created again; an idempotent producer sends what waits with a new producer id, also if only "
            "the response was lost, and an open transaction can only be aborted",
            self._client_id,
            ", ".join([*topics][:SHOWN]) + (", ..." if len(topics) > SHOWN else ""),
        )

    def answered(self, topics: Mapping[str, Topic], now: float) -> None:
        """Note the state of the requested topics in a response."""
        self._wanted_since = self._unusable = None
        self._cluster.recovered(_CLUSTER, now)
        for name, topic in topics.items():
            if topic.error is not ErrorCode.NONE:
                self.active = True
                self._topics.failed(name, topic.error.name, str(refusal(topic.error)).rstrip("."), now)
            elif NO_LEADER in topic.leaders:
                without = [partition for partition, leader in enumerate(topic.leaders) if leader == NO_LEADER]
                some = ", ".join(map(str, without[:SHOWN])) + (", ..." if len(without) > SHOWN else "")
                verb = "has" if len(without) == 1 else "have"
                error = f"{len(without)} of {counted(len(topic.leaders), 'partition')} {verb} no leader ({some})"
                self.active = True
                self._topics.failed(name, "no leader", error, now)
            elif name in self._topics:
                self._topics.recovered(name, now)

    def note_brokers(self, brokers: Mapping[int, Broker]) -> None:
        """Log the brokers that have left or joined the cluster since the last response."""
        before, self._brokers = self._brokers, brokers
        if not before or before.keys() == brokers.keys():
            return
        remaining, joined = before.keys() - brokers.keys(), brokers.keys() - before.keys()
        if len(remaining) + len(joined) > _MAX_MOVES:
            logger.info(
                "%s: brokers that have left the cluster: %d, that have joined it: %d; brokers now: %d",
                self._client_id,
                len(remaining),
                len(joined),
                len(brokers),
            )
            return
        for node in remaining:
            logger.info("%s: %s has left the cluster; brokers now: %d", self._client_id, before[node], len(brokers))
        for node in joined:
            logger.info("%s: %s has joined the cluster; brokers now: %d", self._client_id, brokers[node], len(brokers))

    def left_out(self, problems: Sequence[str], now: float) -> None:
        """Note the brokers of a response that are not used."""
        if problems:
            self.active = True
            text = "; ".join(problems[:SHOWN]) + ("; ..." if len(problems) > SHOWN else "")
            self._listed.failed(_LEFT_OUT, _LEFT_OUT, text, now)
        else:
            self._listed.recovered(_LEFT_OUT, now)

    def due_at(self) -> float:
        """The time at which a line is due without further events."""
        return min(self._topics.due_at(), self._cluster.due_at(), self._listed.due_at())

    def write(self, now: float) -> None:
        """Write the lines that are due."""
        self._write_cluster(now)
        self._write_topics(now)
        self._write_listed(now)
        self.active = bool(self._topics or self._cluster or self._listed)

    def _write_cluster(self, now: float) -> None:
        for line in self._cluster.take_lines(now):
            if isinstance(line, OutageUpdate):
                logger.warning(
                    "%s: no metadata for %.1f s: %s; asking again until a broker answers",
                    self._client_id,
                    line.lasting,
                    line.error,
                )
            elif line.recovered:
                logger.info("%s: metadata arrives again, after %.1f s", self._client_id, line.lasting)

    def _write_listed(self, now: float) -> None:
        for line in self._listed.take_lines(now):
            if isinstance(line, OutageUpdate):
                logger.warning(
                    "%s: the metadata lists brokers that cannot be used: %s; they are left out",
                    self._client_id,
                    line.error,
                )
            elif line.recovered:
                logger.info("%s: all brokers of the metadata can be used again", self._client_id)

    def _write_topics(self, now: float) -> None:
        for line in self._topics.take_lines(now):
            names = ", ".join(quoted(name) for name in line.shown)
            which = f"topic {names}" if line.count == 1 else f"{line.count} topics ({names}, ...)"
            if isinstance(line, OutageUpdate):
                if line.first and line.reason in _RAISED_AT_ONCE:
                    logger.warning(
                        "%s: %s cannot be used: %s; asking for metadata again until this is fixed; until then "
                        "queued records wait, and send raises this error at once",
                        self._client_id,
                        which,
                        line.error,
                    )
                elif line.first:
                    logger.warning(
                        "%s: %s cannot be used: %s; asking for metadata again until this is fixed; until then "
                        "records wait, and send waits up to max.block.ms",
                        self._client_id,
                        which,
                        line.error,
                    )
                else:
                    logger.warning(
                        "%s: %s still cannot be used, after %.1f s and %s: %s",
                        self._client_id,
                        which,
                        line.lasting,
                        counted(line.failures, "more answer"),
                        line.error,
                    )
            elif line.recovered:
                logger.info("%s: %s can be used again, after %.1f s", self._client_id, which, line.lasting)
            else:
                logger.info(
                    "%s: metadata is no longer requested for %s; it could not be used for %.1f s",
                    self._client_id,
                    which,
                    line.lasting,
                )
