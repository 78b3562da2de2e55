"""The mechanism for `sasl.mechanism=HMAC-TICKET`."""

from ottla_authenticator_hmac_ticket.plugin import HmacTicketMechanism

__all__ = ["HmacTicketMechanism"]
