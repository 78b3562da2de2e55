"""The interceptors of one table: called with its rows before they are partitioned, and once with its outcome."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import attrs

from ottla.errors.plugin_origin import faults
from ottla.interfaces import ProducerRows, SupportsOnSendTable, SupportsOnTableAcknowledgement, supports
from ottla.plugins.record_headers import checked_headers
from ottla.producer.interceptors import Interceptors
from ottla.results import TableResult
from ottla.tables.headers import encoded
from ottla.tables.interception import checked_rows
from ottla.tables.table_delivery import TableDelivery

_NO_ROWS: Final = TableResult(rows=0, acknowledged=0, failed=0, partitions={})


class TableInterceptors:
    """Passes the rows of one table through a producer's *interceptors*, all of which have `on_send_table`."""

    def __init__(self, interceptors: Interceptors, topic: str, *, formatted: bool) -> None:
        self._interceptors = interceptors
        self._topic = topic
        self._formatted = formatted
        self._contexts: dict[str, Any] = {}

    def on_send(self, rows: ProducerRows) -> ProducerRows:
        """Call the interceptors in order; return the changed rows. An interceptor that fails is logged and skipped."""
        for name, interceptor in self._interceptors.by_name.items():
            if not supports(interceptor, SupportsOnSendTable):
                continue
            given = attrs.evolve(rows, context=self._contexts.get(name))
            try:
                made = self._checked(interceptor.on_send_table(given), given)
            except faults() as cause:
                self._interceptors.log_failed_send_table(name, cause)
            else:
                self._contexts[name] = made.context
                rows = made
        return rows

    def report(self, delivery: TableDelivery | None, error: Exception | None = None) -> None:
        """Call the interceptors with the outcome of the rows, once it is known; *error*: `send_table` raises it."""
        if not any(supports(each, SupportsOnTableAcknowledgement) for each in self._interceptors.by_name.values()):
            return
        if delivery is None:
            self._acknowledge(_NO_ROWS, error)
        else:
            delivery.observe(lambda result, failed: self._acknowledge(result, error or failed))

    def _acknowledge(self, result: TableResult, error: Exception | None) -> None:
        if self._interceptors.are_apart():
            self._interceptors.apart.add(partial(self._call, result, error))
        else:
            self._call(result, error)

    def _call(self, result: TableResult, error: Exception | None) -> None:
        for name, interceptor in self._interceptors.by_name.items():
            if supports(interceptor, SupportsOnTableAcknowledgement):
                try:
                    interceptor.on_table_acknowledgement(self._topic, result, error, self._contexts.get(name))
                except faults() as cause:
                    self._interceptors.log_failed_table_acknowledgement(name, cause)

    def _checked(self, made: object, given: ProducerRows) -> ProducerRows:
        if made is given:
            return given
        if not isinstance(made, ProducerRows):
            raise TypeError(f"on_send_table returned {type(made).__name__}, not ProducerRows")
        rows = checked_rows(made, given, formatted=self._formatted)
        if rows.added_headers is given.added_headers:
            return rows
        added = checked_headers(rows.added_headers)
        encoded(added)  # a name that UTF-8 cannot encode is this interceptor's fault
        return attrs.evolve(rows, added_headers=added)
