"""Third-party mechanisms: PLAIN in a few lines, and one that takes more turns and may block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, Step


@attrs.define
class Plain:
    """Says name and password, once."""

    user: str = "ann"
    password: str = attrs.field(default="the ducks fly south", repr=False)
    name: str = "X-PLAIN"
    blocking: bool = False

    def authenticator(self, host: str, port: int) -> Authenticator:
        return _PlainExchange(self)


@attrs.define
class _PlainExchange:
    mechanism: Plain

    def start(self) -> bytes:
        return f"\0{self.mechanism.user}\0{self.mechanism.password}".encode()

    def challenge(self, data: bytes) -> Step:
        return Step(reply=None, done=True)


@attrs.define
class Scripted:
    """Does what the test says: `first` for the first message, `steps` one after the other for each challenge."""

    first: Callable[[], bytes] = lambda: b"hello"
    steps: Sequence[Callable[[bytes], Step]] = (lambda _data: Step(reply=None, done=True),)
    name: str = "X-PLAIN"
    blocking: bool = False
    closed: int = 0
    asked: list[tuple[str, int]] = attrs.field(factory=list)

    def authenticator(self, host: str, port: int) -> Authenticator:
        self.asked.append((host, port))
        return _ScriptedExchange(self.first, list(self.steps))

    def close(self) -> None:
        self.closed += 1


@attrs.define
class _ScriptedExchange:
    first: Callable[[], bytes]
    steps: list[Callable[[bytes], Step]]

    def start(self) -> bytes:
        return self.first()

    def challenge(self, data: bytes) -> Step:
        return self.steps.pop(0)(data)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    return [
        ConfigKey(name="x.plain.user", type=str, default="ann", meaning="who logs in"),
        ConfigKey(name="x.plain.password", type=str, default="", meaning="the password", secret=True),
    ]


@hookimpl
def ottla_authenticator(config: PluginConfig) -> Mechanism:
    return Plain(config["x.plain.user"], config["x.plain.password"])
