"""Requests to brokers: connection states, API versions, what is in flight, time-outs, metadata upkeep."""

from ottla.network_client.client import NetworkClient
from ottla.network_client.request import Completion, Request

__all__ = ["Completion", "NetworkClient", "Request"]
