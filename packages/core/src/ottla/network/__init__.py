"""Requests to brokers: connection states, API versions, what is in flight, time-outs, metadata upkeep."""

from ottla.network.client import NetworkClient
from ottla.network.request import Completion, Request

__all__ = ["Completion", "NetworkClient", "Request"]
