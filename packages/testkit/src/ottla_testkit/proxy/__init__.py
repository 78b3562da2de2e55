"""TCP proxies on 127.0.0.1: one that loses connections, one that delays bytes."""

from ottla_testkit.proxy.cut_plan import Cut, Direction
from ottla_testkit.proxy.cutting_proxy import CuttingProxy
from ottla_testkit.proxy.delaying_proxy import DelayingProxy

__all__ = ["Cut", "CuttingProxy", "DelayingProxy", "Direction"]
