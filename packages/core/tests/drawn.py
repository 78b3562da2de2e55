"""Values of any struct at any version, drawn by a seeded generator: the same seed, the same values."""

from __future__ import annotations

import random
from typing import Any, Final

from ottla.protocol.notation import ArrayOf, Blob, Field, Fixed, StructOf, Text, WireType, fields_of

BITS: Final = {"b": 8, "h": 16, "i": 32, "q": 64}
ALPHABET: Final = "az09.-_ \0\x7f\x80é€ß漢😀"


class Draw:
    """A source of values. `chance` decides everything, so that it may be asked for other things in between."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def struct(self, kind: type, version: int) -> Any:
        """A struct with anything in the fields of the version, the defaults in all others."""
        there = [field for field in fields_of(kind) if version in field.versions]
        return kind(**{field.name: self._field(field, version) for field in there})

    def _field(self, field: Field, version: int) -> Any:
        if field.tag is not None and self.chance.random() < 0.4:
            return field.default
        if field.nullable(version) and self.chance.random() < 0.25:
            return None
        return self._value(field.type, version)

    def _value(self, kind: WireType, version: int) -> Any:
        chance = self.chance
        match kind:
            case Fixed("?"):
                return chance.random() < 0.5
            case Fixed("16s"):
                return chance.randbytes(16) if chance.random() < 0.8 else bytes(16)
            case Fixed(letter):
                return self._integer(BITS[letter] - 1)
            case Text():
                return "".join(chance.choices(ALPHABET, k=self._length()))
            case Blob():
                return chance.randbytes(self._length())
            case ArrayOf(item):
                return [self._value(item, version) for _ in range(chance.choice((0, 1, 1, 2, 3)))]
            case StructOf(inner):
                return self.struct(inner, version)

    def _integer(self, bits: int) -> int:
        sort = self.chance.random()
        if sort < 0.2:
            return self.chance.choice((0, -1, 1, -(1 << bits), (1 << bits) - 1))
        return self.chance.randrange(-(1 << bits), 1 << bits) >> self.chance.randrange(bits)

    def _length(self) -> int:
        return self.chance.choice((0, 1, 2, 5, 12, 40, 126, 127, 128, 300))
