"""Logging in to brokers: the exchange of one connection, the session that comes of it, who thinks where."""

from ottla.authentication.authentication import Authentication, Thinking
from ottla.authentication.exchange import Ask, Exchange, LoggedIn, Move, Think, Token
from ottla.authentication.helper import Helper, Thought

__all__ = ["Ask", "Authentication", "Exchange", "Helper", "LoggedIn", "Move", "Think", "Thinking", "Thought", "Token"]
