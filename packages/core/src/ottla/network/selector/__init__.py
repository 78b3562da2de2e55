"""Sockets: the only package that touches `socket` and `selectors`."""

from ottla.network.selector.selector import Selector

__all__ = ["Selector"]
