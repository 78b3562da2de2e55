"""The text of errors about a transaction of another cluster: there, the same ids may be another transaction's."""

from __future__ import annotations

from ottla.errors import quoted


def other_cluster(transactional_id: str, *, wanted: str, found: str) -> str:
    """Say that brokers of the cluster *found* do not have a transaction of the cluster *wanted*, and what helps."""
    return (
        f"the transaction of transactional id {quoted(transactional_id)} is in the cluster {quoted(wanted)}, but these "
        f"brokers are those of {quoted(found)}, where its ids may be those of another one; nothing was changed there. "
        "Check bootstrap.servers, and whether a name or load balancer leads to several clusters. If its cluster was "
        "set up again, the transaction is gone, and so are its records"
    )
