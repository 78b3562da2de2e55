"""What makes a producer idempotent and transactional: ids, sequence numbers, states, and which request is next."""

from ottla.transaction_manager.agenda import Agenda, Stance
from ottla.transaction_manager.errands import Errand, Target
from ottla.transaction_manager.idempotence import Idempotence
from ottla.transaction_manager.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetsToSend
from ottla.transaction_manager.prepared import PreparedTransaction
from ottla.transaction_manager.sequences import OrderRefused, Sequences
from ottla.transaction_manager.shared import SharedTransaction

__all__ = [
    "Agenda",
    "ConsumerGroupMetadata",
    "Errand",
    "Idempotence",
    "OffsetAndMetadata",
    "OffsetsToSend",
    "OrderRefused",
    "PreparedTransaction",
    "Sequences",
    "SharedTransaction",
    "Stance",
    "Target",
]
