"""The ids of the cluster that brokers belong to, and of the one that they must belong to."""

from __future__ import annotations

import attrs


@attrs.define(eq=False)
class ClusterIds:
    """The id of the cluster that metadata is from, and that of the transaction that the producer has joined.

    The I/O thread writes one and callers the other, each before it reads the other's: one of them sees that they
    differ. Brokers before 0.10.1 have none.
    """

    current: str | None = None
    """The id of the cluster that the last response was from, if it had one."""
    joined: str | None = None

    def learn(self, cluster_id: str | None) -> bool:
        """Note the id of a response, on the I/O thread. Return whether ids of transactions are of another cluster."""
        if cluster_id is None:
            return False
        before, self.current = self.current, cluster_id
        return before not in (None, cluster_id) or self.joined not in (None, cluster_id)

    def join(self, cluster_id: str | None) -> bool:
        """Note the cluster of a transaction, on a caller's thread. Return False if the brokers are of another one."""
        self.joined = cluster_id
        if cluster_id is None or self.current in (None, cluster_id):
            return True
        self.joined = None
        return False
