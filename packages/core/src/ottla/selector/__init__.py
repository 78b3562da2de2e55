"""Sockets: the only package that touches `socket` and `selectors`."""

from ottla.selector.selector import Selector

__all__ = ["Selector"]
