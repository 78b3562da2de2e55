"""Logins: the exchange of messages on one connection, its session, and the threads of a blocking mechanism.

The first login imports the exchange: a producer without logins does not build its messages.
"""

from ottla.network.authentication.authentication import Authentication, AuthExecutor
from ottla.network.authentication.login_session import LoginSession
from ottla.network.authentication.steps import Ask, Compute, LoggedIn, LoginStep, Token
from ottla.network.authentication.worker import AuthWorker, Computation

__all__ = [
    "Ask",
    "AuthExecutor",
    "AuthWorker",
    "Authentication",
    "Computation",
    "Compute",
    "LoggedIn",
    "LoginSession",
    "LoginStep",
    "Token",
]
