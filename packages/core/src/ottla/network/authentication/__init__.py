"""Logging in to brokers: the exchange of one connection, the session that comes of it, who thinks where.

The exchange itself is imported by the first login: a producer without one does not make its messages.
"""

from ottla.network.authentication.authentication import SHORT_SESSION, Authentication, Thinking
from ottla.network.authentication.steps import Ask, LoggedIn, Move, Think, Token
from ottla.network.authentication.worker import Helper, Thought

__all__ = [
    "SHORT_SESSION",
    "Ask",
    "Authentication",
    "Helper",
    "LoggedIn",
    "Move",
    "Think",
    "Thinking",
    "Thought",
    "Token",
]
