"""Consumer groups of a simulated cluster: their members, which may commit offsets in transactions (KIP-447)."""

from __future__ import annotations

import attrs

from ottla.errors import ErrorCode


@attrs.frozen(kw_only=True)
class Membership:
    """The member that a request names; the defaults name none."""

    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

    @property
    def is_named(self) -> bool:
        """Whether a request names a member."""
        return self != Membership()


@attrs.define(kw_only=True)
class SimulatedGroup:
    """A consumer group whose members the test sets. There are no simulated consumers that join it.

    `members` has the `group.instance.id` of each member, None for a dynamic one.
    """

    generation_id: int = 1
    """The group's generation; with `group.protocol=consumer`, the epoch of each member."""
    members: dict[str, str | None] = attrs.field(factory=dict)
    classic: bool = True
    """Whether its protocol is the older one, and not that of KIP-848."""

    def check(self, named: Membership) -> ErrorCode:
        """Return NONE if a transaction may commit offsets of this member, otherwise the error code."""
        if named.generation_id < 0 and not (self.members and named.is_named):
            return ErrorCode.NONE
        if self.classic and named.group_instance_id is not None:
            owner = next((id for id, own in self.members.items() if own == named.group_instance_id), None)
            if owner is not None and owner != named.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        if named.member_id not in self.members:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if named.generation_id == self.generation_id else ErrorCode.ILLEGAL_GENERATION


def check_membership(group: SimulatedGroup | None, named: Membership) -> ErrorCode:
    """Return NONE if a transaction may commit offsets of this member; *group* is None if nothing was committed yet."""
    if group is None:
        return ErrorCode.NONE if named.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    return group.check(named)
