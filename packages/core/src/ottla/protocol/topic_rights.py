"""What a response to Metadata says about the user's rights on a topic (KIP-430)."""

from __future__ import annotations

from typing import Final

from ottla.protocol.messages.metadata import NOT_ASKED, MetadataResponseTopic

FIRST_WITH_RIGHTS: Final = 8
"""The first version of Metadata with authorized operations."""

_WRITE: Final = 1 << 4
"""The bit of the operation WRITE."""


def may_write(topic: MetadataResponseTopic) -> bool:
    """Return whether the user may write to the topic; True if the request did not ask."""
    allowed = topic.topic_authorized_operations
    return allowed == NOT_ASKED or bool(allowed & _WRITE)
