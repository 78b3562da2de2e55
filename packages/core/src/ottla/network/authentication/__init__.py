"""Logging in to brokers: the exchange of one connection, the session that comes of it, who thinks where.

The exchange itself is imported by the first login: a producer without one does not make its messages.
"""

from ottla.network.authentication.authentication import SHORT_SESSION, Authentication, AuthExecutor
from ottla.network.authentication.steps import Ask, Compute, LoggedIn, Move, Token
from ottla.network.authentication.worker import AuthWorker, Computation

__all__ = [
    "SHORT_SESSION",
    "Ask",
    "AuthExecutor",
    "AuthWorker",
    "Authentication",
    "Computation",
    "Compute",
    "LoggedIn",
    "Move",
    "Token",
]
