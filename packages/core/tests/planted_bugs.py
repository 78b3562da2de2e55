"""Bugs of one line that simulated histories must find, each planted into the core while it is imported.

A bug replaces a text that occurs once in a module. `install` must be called before the core is imported.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType
from typing import Any, Final

import attrs


@attrs.frozen(kw_only=True)
class PlantedBug:
    """A bug: in this module of the core, *before* becomes *after*. *kinds* of histories find it."""

    module: str
    before: str
    after: str
    kinds: Sequence[str]


BUGS: Final[Mapping[str, PlantedBug]] = {
    # Sequence numbers
    "a commit that fails while the producer closes is not aborted": PlantedBug(
        module="transactions.transaction_request_source",
        before="            self._closing = True\n",
        after="",
        kinds=["aborting"],
    ),
    "a round that has failed a batch waits": PlantedBug(
        module="sender.sender",
        before="        if self._failures.count != failures:\n",
        after="        if False:\n",
        kinds=["aborting", "transactional"],
    ),
    "a forgotten producer is no matter of numbers": PlantedBug(
        module="sender.produce_error_actions",
        before="frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})",
        after="frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER})",
        kinds=["trimmed"],
    ),
    "a batch of a forgotten producer counts as not written": PlantedBug(
        module="sender.produce_response_handler",
        before="            batch.maybe_written &= forgotten\n",
        after="            batch.maybe_written = False\n",
        kinds=["trimmed"],
    ),
    "offsets of a transaction that has timed out fence the producer": PlantedBug(
        module="transactions.transaction_requests",
        before="        if self.txn_v2 and deciding is ErrorCode.INVALID_PRODUCER_EPOCH:\n",
        after="        if False:\n",
        kinds=["overdue"],
    ),
    "numbers of split parts overlap": PlantedBug(
        module="accumulator.sequences",
        before="sequence = sequence.advanced_by(part.count)",
        after="sequence = sequence.advanced_by(max(part.count - 1, 1))",
        kinds=["divided", "reshaped"],
    ),
    "split in doubt forgotten": PlantedBug(
        module="accumulator.sequences",
        before="        numbers.split_in_doubt |= batch.maybe_written\n",
        after="",
        kinds=["divided", "reshaped", "patient"],
    ),
    "epoch not bumped": PlantedBug(
        module="accumulator.idempotent_epoch_bump",
        before="epoch=used.epoch + 1)",
        after="epoch=used.epoch)",
        kinds=["expiring", "patient"],
    ),
    "numbers of an expired batch used again": PlantedBug(
        module="accumulator.sequences",
        before="        if numbers.remove(batch, written=False) and uncertain:\n",
        after="        if numbers.remove(batch, written=False) and False:\n",
        kinds=["expiring"],
    ),
    "first batches of a partition in flight together": PlantedBug(
        module="accumulator.sequences",
        before="numbers.known_to_broker and own and numbers.has_room",
        after="own and numbers.has_room",
        kinds=["patient", "expiring"],
    ),
    "numbers of refused batches not free": PlantedBug(
        module="accumulator.sequences",
        before="numbers.next = (numbers.last_acknowledged + 1) % SEQUENCES  # the",
        after="pass  # the",
        kinds=["expiring", "reshaped"],
    ),
    "acknowledgement does not advance the numbers": PlantedBug(
        module="accumulator.sequences",
        before="                numbers.last_acknowledged = last\n",
        after="                pass\n",
        kinds=["patient", "faultless"],
    ),
    "batch renumbered although it may be written": PlantedBug(
        module="accumulator.sequences",
        before="if batch.maybe_written and (numbers.next_uncertain",
        after="if False and (numbers.next_uncertain",
        kinds=["expiring", "patient"],
    ),
    # Order
    "retried batch behind younger ones": PlantedBug(
        module="accumulator.partition_queue",
        before="        self.batches.insert(place, batch)\n",
        after="        self.batches.append(batch)\n",
        kinds=["plain", "patient"],
    ),
    "retried batch before older ones": PlantedBug(
        module="accumulator.partition_queue",
        before="        self.batches.insert(place, batch)\n",
        after="        self.batches.appendleft(batch)\n",
        kinds=["patient", "plain"],
    ),
    "partition not unmuted": PlantedBug(
        module="sender.sender",
        before="                self._accumulator.unmute(batch, at=completion.throttled_until)\n",
        after="                pass\n",
        kinds=["plain"],
    ),
    "records overtake the unassigned batch": PlantedBug(
        module="producer.producer",
        before="                self._accumulator.keyed_appender.assign_partitions(route.topic)\n",
        after="                pass\n",
        kinds=["faultless"],
    ),
    # Outcomes
    "batch in flight expires as not written": PlantedBug(
        module="accumulator.batch",
        before="        return self.in_flight or self.maybe_written\n",
        after="        return self.maybe_written\n",
        kinds=["expiring"],
    ),
    "lost response counts as not written": PlantedBug(
        module="sender.produce_response_handler",
        before="            batch.note_maybe_written(response_lost=True)\n        if isinstance",
        after="            batch.response_lost = True\n        if isinstance",
        kinds=["expiring"],
    ),
    "every code counts as a refusal": PlantedBug(
        module="sender.produce_response_handler",
        before="        if response.code not in REFUSED_BEFORE_APPEND:\n",
        after="        if False:\n",
        kinds=["expiring"],
    ),
    "ambiguous code counts as a refusal": PlantedBug(
        module="sender.produce_error_origins",
        before='        AppendTime.EITHER,\n        "before: `Partition.appendRecordsToLeader`;',
        after='        AppendTime.BEFORE,\n        "before: `Partition.appendRecordsToLeader`;',
        kinds=["expiring"],
    ),
    "delivery.timeout.ms counts from the last attempt": PlantedBug(
        module="accumulator.batch",
        before="        return self.created_at + timeout <= now\n",
        after="        return self._since + timeout <= now\n",
        kinds=["expiring"],
    ),
    "queued batches never expire": PlantedBug(
        module="accumulator.accumulator",
        before="            if self._batches.oldest + self._delivery_timeout > now:\n",
        after="            if now >= 0:\n",
        kinds=["expiring"],
    ),
    "batches in flight never expire": PlantedBug(
        module="sender.batch_expiry",
        before="        if now >= in_flight.next_expiry:",
        after="        if now < 0:",
        kinds=["expiring"],
    ),
    "offset of a record one too high": PlantedBug(
        module="accumulator.batch_result",
        before="            count(base_offset) if base_offset >= 0",
        after="            count(base_offset + 1) if base_offset >= 0",
        kinds=["faultless"],
    ),
    "callbacks of a split batch dropped": PlantedBug(
        module="accumulator.batch_result",
        before="        self.forward_callbacks()\n        return True",
        after="        return True",
        kinds=["divided"],
    ),
    "callbacks of an aborted batch dropped": PlantedBug(
        module="accumulator.accumulator",
        before="        for batch in remaining:\n            self._completion.fail(batch, cause)\n",
        after="        for batch in remaining:\n"
        "            batch.complete(Failed(error=delivery_failed(batch, cause, self._clock())))\n",
        kinds=["patient", "crowded"],
    ),
    "flush ignores the parts of a split batch": PlantedBug(
        module="accumulator.incomplete_batches",
        before="outcome.parts if isinstance(outcome, Forwarded) else ()\n",
        after="()\n",
        kinds=["divided"],
    ),
    "flush waits for one batch only": PlantedBug(
        module="accumulator.incomplete_batches",
        before="        flush.pending = list(self.all)\n",
        after="        flush.pending = list(self.all)[:1]\n",
        kinds=["faultless"],
    ),
    "batch without room in its request lost": PlantedBug(
        module="accumulator.accumulator",
        before="                    self._batches.put_first(batch)\n                free_bytes",
        after="                    pass\n                free_bytes",
        kinds=["faultless"],
    ),
    "closed with batches in flight": PlantedBug(
        module="sender.io_thread",
        before="        return deadline is not None and (self._sender.idle or self._clock() >= deadline)",
        after="        return deadline is not None",
        kinds=["patient", "faultless"],
    ),
    # Memory
    "memory of a split batch given to each part": PlantedBug(
        module="accumulator.accumulator",
        before="        part.held_bytes += share\n",
        after="        part.held_bytes += held\n",
        kinds=["divided"],
    ),
    "memory of an unassigned batch kept": PlantedBug(
        module="accumulator.keyed_appender",
        before="        self._pool.release(surplus)\n",
        after="",
        kinds=["faultless"],
    ),
    "memory of a call that has waited is free, too": PlantedBug(
        module="accumulator.buffer_pool",
        before="                waiter.held, self._free = waiter.size, remaining\n",
        after="                waiter.held = waiter.size\n",
        kinds=["crowded"],
    ),
    "memory of a failed batch kept": PlantedBug(
        module="accumulator.batch_completion",
        before="            held += batch.held_bytes\n",
        after="            held += 0 if isinstance(batch.outcome, Failed) else batch.held_bytes\n",
        kinds=["expiring"],
    ),
    "surplus memory released twice": PlantedBug(
        module="accumulator.sealing",
        before="            batch.held_bytes -= surplus\n",
        after="",
        kinds=["faultless"],
    ),
    "memory of a call that leaves as it is served is lost": PlantedBug(
        module="accumulator.buffer_pool",
        before="            self._serve(held)\n",
        after="            self._serve(0)\n",
        kinds=["tasks"],
    ),
    "memory that is given back is not free": PlantedBug(
        module="accumulator.buffer_pool",
        before="            self._serve(size)\n",
        after="            self._serve(0)\n",
        kinds=["faultless"],
    ),
    "interrupted call keeps its place in line for memory": PlantedBug(
        module="accumulator.buffer_pool",
        before="            self.leave(waiter)\n            raise\n\n    def join_queue",
        after="            raise\n\n    def join_queue",
        kinds=["interrupted"],
    ),
    # The network
    "rest of a chunk lost after a partial write": PlantedBug(
        module="network.selector.channel",
        before="                        self._unsent[0] = memoryview(chunk)[rest:]\n",
        after="                        self._unsent[:1] = []\n",
        kinds=["faultless"],
    ),
    "response paired with the newest request": PlantedBug(
        module="network.in_flight_requests",
        before="        sent = self[0]\n",
        after="        sent = self[-1]\n",
        kinds=["faultless"],
    ),
    "leader not looked up after it moved": PlantedBug(
        module="sender.produce_response_handler",
        before="        if has_new_leader(self._metadata.cluster, batch):\n",
        after="        if True:\n",
        kinds=["patient"],
    ),
    "throttle time ignored": PlantedBug(
        module="network.connection",
        before="        self.throttled_until = max(self.throttled_until, now + seconds)\n",
        after="",
        kinds=["throttled", "patient"],
    ),
    "one request more in flight": PlantedBug(
        module="network.connection",
        before="            and len(self.in_flight) < self.max_in_flight\n",
        after="            and len(self.in_flight) <= self.max_in_flight\n",
        kinds=["patient"],
    ),
    "requests never time out": PlantedBug(
        module="network.connection",
        before="                return self.in_flight[0].deadline\n",
        after='                return float("inf")\n',
        kinds=["patient"],
    ),
    "requests in flight forgotten with their connection": PlantedBug(
        module="network.connection",
        before="        return self.in_flight.take_all()\n",
        after="        self.in_flight.take_all()\n        return ()\n",
        kinds=["patient"],
    ),
    "idle connection closed with a request in flight": PlantedBug(
        module="network.connection",
        before="                return self.in_flight[0].deadline\n            return",
        after="                return min(self.in_flight[0].deadline, self.used_at + 0.02)\n            return",
        kinds=["faultless"],
    ),
    "metadata of an older epoch accepted": PlantedBug(
        module="network.metadata",
        before="            if epoch > epochs[partition] >= 0:\n",
        after="            if False:\n",
        kinds=["replicated", "patient"],
    ),
    "leader of an older epoch accepted when the leader is not listed": PlantedBug(
        module="network.metadata",
        before="known.leaders[partition] in brokers or place not in self._hinted_epochs:",
        after="known.leaders[partition] in brokers:",
        kinds=["replicated", "unclean"],
    ),
    "leader named in a response taken for another partition": PlantedBug(
        module="network.metadata",
        before="            leaders[partition], epochs[partition] = leader.id, epoch\n            self",
        after="            leaders[0], epochs[0] = leader.id, epoch\n            self",
        kinds=["replicated", "patient", "expiring"],
    ),
    "throttle time counts against request.timeout.ms": PlantedBug(
        module="network.connection",
        before="        self.in_flight.postpone(seconds, now)\n",
        after="",
        kinds=["throttled"],
    ),
    "partition in flight not muted": PlantedBug(
        module="sender.sender",
        before="                self._accumulator.mute(batch)\n",
        after="                pass\n",
        kinds=["moving"],
    ),
    "send waits for max.block.ms twice": PlantedBug(
        module="accumulator.record_appender",
        before="max(limit.seconds - waited, 0.0)",
        after="2 * limit.seconds",
        kinds=["crowded"],
    ),
    "session not renewed": PlantedBug(
        module="network.authentication.login_session",
        before="        self.renew_at = max(self.asked_at + renewal_after, now + LEAST_SESSION)\n",
        after="",
        kinds=["secured"],
    ),
    # Waking
    "new batch does not wake the I/O thread": PlantedBug(
        module="sender.io_handoff",
        before="        elif not expected:\n            self.wake()\n",
        after="",
        kinds=["faultless"],
    ),
    "flush does not wake the I/O thread": PlantedBug(
        module="accumulator.flushes",
        before="            self._batches.begin_flush(flush)\n        self._wake()\n",
        after="            self._batches.begin_flush(flush)\n",
        kinds=["faultless"],
    ),
    "linger has no end": PlantedBug(
        module="accumulator.readiness",
        before="head.closed else head.created_at + self.linger\n",
        after="head.closed else head.created_at + 60\n",
        kinds=["faultless"],
    ),
    "producer polls without a pause": PlantedBug(
        module="network.client",
        before="            self._selector.poll(seconds if seconds > 0.0 else 0.0)\n",
        after="            self._selector.poll(min(0.001, seconds))\n",
        kinds=["patient"],
    ),
    # Tasks
    "wait of a keyed record ended by the other appender": PlantedBug(
        module="accumulator.try_appender",
        before="            self._appender_of(wait).time_out(wait, waited=waited, timeout=timeout)\n",
        after="            self.appender.time_out(wait, waited=waited, timeout=timeout)\n",
        kinds=["tasks"],
    ),
    "memory that a cancelled task waited for is lost": PlantedBug(
        module="producer.nonblocking_send",
        before="        if isinstance(self.step, MemoryWait | MetadataWait):\n            self.step.cancel()\n",
        after="",
        kinds=["tasks"],
    ),
    "memory that tasks of a closed loop waited for is lost": PlantedBug(
        module="aio.waits",
        before="wait.cancel if isinstance(wait, MemoryWait) else lambda: None",
        after="lambda: None",
        kinds=["tasks"],
    ),
    "interceptor not notified of a record that was given up": PlantedBug(
        module="producer.nonblocking_send",
        before="            intercepted.fail(error)\n",
        after="            pass\n",
        kinds=["tasks"],
    ),
    "each wait of a task may take the whole time-out": PlantedBug(
        module="aio.async_producer",
        before="_ready(step, pending.limit.seconds - waited)",
        after="_ready(step, pending.limit.seconds)",
        kinds=["tasks"],
    ),
    "memory that comes as a task gives up is lost": PlantedBug(
        module="accumulator.record_appender",
        before="            wait.give_up(before=waited, limit=limit.name)  # memory",
        after="            wait.take(Claim()) or wait.give_up(before=waited, limit=limit.name)  # memory",
        kinds=["tasks"],
    ),
    "table overtakes the unassigned batch": PlantedBug(
        module="accumulator.partition_appender",
        before="                self._keyed.assign(queue.topic)\n",
        after="",
        kinds=["tasks"],
    ),
    # Transactions of tasks
    "result of a cancelled call has to be asked for": PlantedBug(
        module="aio.transaction_results",
        before="        call.stop_waiting()\n",
        after="        pass\n",
        kinds=["cancelled"],
    ),
    "result of a cancelled commit is that of the next one": PlantedBug(
        module="transactions.transaction_state",
        before="        result.unclaimed = False\n",
        after="",
        kinds=["cancelled"],
    ),
    "block does not wait for the cancelled one before": PlantedBug(
        module="transactions.manager",
        before="        return None if result.required and self._state.state is State.COMMITTING else result\n",
        after="        return None\n",
        kinds=["cancelled"],
    ),
    "cancelled call drops its result": PlantedBug(
        module="producer.transactions",
        before="        self.pending.required = False\n",
        after="        self.pending.unclaimed = False\n",
        kinds=["cancelled"],
    ),
    "record that waits goes into the next transaction": PlantedBug(
        module="accumulator.append_permission",
        before="            self._transactions.check_open(transaction)\n",
        after="            self._transactions.check_open()\n",
        kinds=["writers"],
    ),
    # Transactions
    "commit before all batches are acknowledged": PlantedBug(
        module="transactions.transaction_request_source",
        before="            request = self._wanted(all_complete=complete)\n",
        after="            request = self._wanted(all_complete=state.current.all_records_queued)\n",
        kinds=["transactional"],
    ),
    "records counted before the state is read": PlantedBug(
        module="sender.coordinator_request_sender",
        before="all_complete=lambda: not self._accumulator.incomplete)",
        after="all_complete=(lambda complete: lambda: complete)(not self._accumulator.incomplete))",
        kinds=["awaiting", "transactional"],
    ),
    "refused partition counts as added": PlantedBug(
        module="transactions.transaction_requests",
        before="        return self.failure(deciding_code(self.kind, causes)) or PartitionsAdded(self.partitions)\n",
        after="        return PartitionsAdded(self.partitions)\n",
        kinds=["transactional"],
    ),
    "moved coordinator asked again": PlantedBug(
        module="transactions.response_action_handler",
        before="                self._coordinators.forget(request)\n",
        after="",
        kinds=["transactional", "aborting"],
    ),
    "partitions of an aborted transaction stay members": PlantedBug(
        module="accumulator.transaction_partitions",
        before="        self._members.clear()\n",
        after="",
        kinds=["transactional"],
    ),
    "partition not added after the coordinator moved": PlantedBug(
        module="transactions.response_action_handler",
        before="                self._coordinators.forget(request)\n                self.retry(request, error, now)\n",
        after="                self._coordinators.forget(request)\n"
        "                partitions = state.sequences.transaction_partitions\n"
        "                partitions.add(list(partitions.wanted))\n"
        "                self.retry(request, error, now)\n",
        kinds=["transactional", "aborting"],
    ),
    "records of a prepared epoch sent after a fence": PlantedBug(
        module="transactions.response_action_handler",
        before="                state.transition_to_fenced(error)\n",
        after="                self.retry(request, error, now)\n",
        kinds=["transactional", "aborting"],
    ),
    "offsets in part count as written": PlantedBug(
        module="transactions.response_action_handler",
        before="            if action.failure is not None:\n",
        after="            if False:\n",
        kinds=["transactional"],
    ),
    "epoch used again after an uncertain abort": PlantedBug(
        module="transactions.current_transaction",
        before="needs_new_epoch=self.needs_new_epoch or uncertain or self._may_begin_late or not reusable",
        after="needs_new_epoch=self.needs_new_epoch or self._may_begin_late or not reusable",
        kinds=["aborting"],
    ),
    # Clusters
    "the producer id of another cluster is kept": PlantedBug(
        module="accumulator.sequences",
        before="        self.producer_id_and_epoch = None\n        self._forget_idle()",
        after="        self._forget_idle()",
        kinds=["replaced"],
    ),
    "batches without an outcome keep their numbers in another cluster": PlantedBug(
        module="accumulator.sequences",
        before="            numbers.out_of_order = True\n        self._in_doubt.update(renewed)\n",
        after="",
        kinds=["replaced"],
    ),
    "numbers go on in a cluster that assigns the same id again": PlantedBug(
        module="accumulator.sequences",
        before="            self._other_topics = False\n            self._forget_idle()\n",
        after="            self._other_topics = False\n",
        kinds=["restored"],
    ),
    "a transaction whose id a cluster has forgotten is never ended": PlantedBug(
        module="transactions.transaction_requests",
        before="if not self.commit and code",
        after="if False and code",
        kinds=["restored"],
    ),
    "an outdated coordinator is believed": PlantedBug(
        module="transactions.response_action_handler",
        before="            return not current.refused\n",
        after="            return False\n",
        kinds=["unaware"],
    ),
    "the ids of topics say nothing about their cluster": PlantedBug(
        module="network.topic_ids",
        before="        other = self._differ(found, self.same_since)\n",
        after="        other = False\n",
        kinds=["replaced"],
    ),
    "the ids of topics are not asked of a new connection": PlantedBug(
        module="network.topic_ids",
        before="        if not self._differ(found, self._same_since(found)):\n            kept",
        after="        if True:\n            kept",
        kinds=["replaced"],
    ),
    "the id of the cluster is not asked of a new connection": PlantedBug(
        module="network.cluster_check",
        before="        if response.cluster_id and response.cluster_id != known:",
        after="        if False:",
        kinds=["replaced"],
    ),
    "a connection gets records before its cluster is known": PlantedBug(
        module="network.cluster_check",
        before="        connection.unchecked = True\n",
        after="",
        kinds=["replaced"],
    ),
    # Coordinators that change their protocol, forget, or are two brokers
    "an open transaction changes its protocol": PlantedBug(
        module="transactions.current_transaction",
        before="        if self.needs_end or self.version == cluster_version:\n",
        after="        if self.version == cluster_version:\n",
        kinds=["upgraded"],
    ),
    "a transaction that may have begun changes its protocol": PlantedBug(
        module="transactions.current_transaction",
        before="        if self.needs_end or self.version == cluster_version:\n",
        after="        if self.started or self.version == cluster_version:\n",
        kinds=["staggered", "upgraded"],
    ),
    "a new protocol begins in an epoch of the old one": PlantedBug(
        module="transactions.current_transaction",
        before="        if self.version is not None and not self.uses_v2 and cluster_version >= TXN_V2:\n",
        after="        if False:\n",
        kinds=["upgraded"],
    ),
    "an abort of a forgotten id fails": PlantedBug(
        module="transactions.transaction_requests",
        before="        if not self.commit and code is ErrorCode.INVALID_PRODUCER_ID_MAPPING:\n",
        after="        if False:\n",
        kinds=["disowned"],
    ),
    "an abort fails because its partitions meet a forgotten id": PlantedBug(
        module="transactions.response_action_handler",
        before="        if self._is_forgotten_in_abort(request, error):\n",
        after="        if False:\n",
        kinds=["disowned"],
    ),
    "requests of a transaction go to an unknown cluster": PlantedBug(
        module="network.connection_opener",
        before="(connection.unchecked and self._metadata.checks_before_all)",
        after="False",
        kinds=["misdirected"],
    ),
    "a transaction ends where its partitions are not confirmed": PlantedBug(
        module="transactions.confirmations",
        before="        if partitions:\n",
        after="        if False:\n",
        kinds=["unaware"],
    ),
    "offsets go to the coordinator of the transaction": PlantedBug(
        module="transactions.coordinators",
        before="                return self._groups.get(request.key)\n",
        after="                return self._groups.get(request.key) and self._transaction\n",
        kinds=["marked"],
    ),
}


def install(name: str) -> None:
    """Plant a bug: the core's module has it when it is imported."""
    assert "ottla" not in sys.modules, "a bug is planted before the core is imported"
    sys.meta_path.insert(0, _Planting(BUGS[name]))


class _Planting(MetaPathFinder):
    def __init__(self, bug: PlantedBug) -> None:
        self._bug = bug

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != f"ottla.{self._bug.module}":
            return None
        spec = PathFinder.find_spec(name, path, target)
        assert spec is not None
        assert spec.origin is not None
        loader: Loader = _Planted(name, spec.origin, self._bug)
        return importlib.util.spec_from_file_location(name, spec.origin, loader=loader)


class _Planted(SourceFileLoader):
    def __init__(self, name: str, path: str, bug: PlantedBug) -> None:
        super().__init__(name, path)
        self._bug = bug

    def get_code(self, fullname: str) -> CodeType:  # compiled files have no bug
        return compile(planted(self.get_data(self.path).decode(), self._bug), self.path, "exec", dont_inherit=True)


def planted(source: str, bug: PlantedBug) -> str:
    """The source with the bug; its text must occur exactly once."""
    assert source.count(bug.before) == 1, f"{bug.before!r} occurs {source.count(bug.before)} times in {bug.module}"
    return source.replace(bug.before, bug.after)
