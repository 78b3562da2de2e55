"""Logging in to brokers: the exchange of one connection, the session that comes of it, who thinks where.

The exchange itself is imported by the first login: a producer without one does not make its messages.
"""

from ottla.authentication.authentication import SHORT_SESSION, Authentication, Thinking
from ottla.authentication.helper import Helper, Thought
from ottla.authentication.moves import Ask, LoggedIn, Move, Think, Token

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
