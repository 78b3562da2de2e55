"""What makes a producer idempotent and transactional: ids, sequence numbers, states, and which request is next."""

from ottla.transaction_manager.agenda import Agenda, Stance
from ottla.transaction_manager.errands import LAST_PRODUCE_OF_OLD, Errand, Target
from ottla.transaction_manager.idempotence import Idempotence
from ottla.transaction_manager.manager import TransactionManager
from ottla.transaction_manager.offsets import ConsumerGroupMetadata, OffsetAndMetadata, OffsetsToSend
from ottla.transaction_manager.prepared import PreparedTransaction
from ottla.transaction_manager.sequences import Sequences
from ottla.transaction_manager.states import State

__all__ = [
    "LAST_PRODUCE_OF_OLD",
    "Agenda",
    "ConsumerGroupMetadata",
    "Errand",
    "Idempotence",
    "OffsetAndMetadata",
    "OffsetsToSend",
    "PreparedTransaction",
    "Sequences",
    "Stance",
    "State",
    "Target",
    "TransactionManager",
]
