"""Transport layers for plugins to build on: a bare socket, a negotiation before the first byte, a layer over another.

Part of the contract with plugins, like `ottla.interfaces`; `chain` is the core's own.
"""

from ottla.plugins.transports.layer_details import lower_details
from ottla.plugins.transports.opening import open_layer
from ottla.plugins.transports.socket_layer import SocketLayer
from ottla.plugins.transports.tunnel import Exchange, Negotiation, TunnelLayer

__all__ = ["Exchange", "Negotiation", "SocketLayer", "TunnelLayer", "lower_details", "open_layer"]
