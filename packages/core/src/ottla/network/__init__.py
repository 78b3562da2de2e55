"""Requests to brokers: connection states, API versions, requests in flight, timeouts, metadata updates."""

from ottla.network.client import NetworkClient
from ottla.network.request import Completion, Request

__all__ = ["Completion", "NetworkClient", "Request"]
