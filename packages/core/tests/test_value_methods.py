"""Values whose comparison, hash and repr are not compiled for each class."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

import ottla
from ottla.results.value_methods import ValueMethods


@attrs.frozen(eq=False, repr=False)
class Value(ValueMethods):
    """A value with a secret, and a field that does not count."""

    name: str
    parts: list[Any] = attrs.field(factory=list)
    secret: bytes = attrs.field(default=b"the ducks fly south", repr=False)
    note: str = attrs.field(default="", eq=False)


@attrs.frozen
class Compiled:
    """The same with methods that attrs makes."""

    name: str
    parts: list[Any] = attrs.field(factory=list)
    secret: bytes = attrs.field(default=b"the ducks fly south", repr=False)
    note: str = attrs.field(default="", eq=False)


@attrs.frozen(eq=False, repr=False)
class Narrower(Value):
    """A subclass with the same fields."""


def users() -> list[type]:
    assert ottla
    direct = ValueMethods.__subclasses__()
    found = [*direct, *(cls for each in direct for cls in each.__subclasses__())]
    # attrs makes a second class with slots; the first one has no attributes of its own.
    return [cls for cls in found if cls.__module__.startswith("ottla.") and "__attrs_attrs__" in vars(cls)]


def test_values_with_equal_fields_are_equal_and_have_one_hash() -> None:
    value: Any = Value("a", (1,))  # type: ignore[arg-type]
    equal: Any = Value("a", (1,), note="another")  # type: ignore[arg-type]

    assert value == equal
    assert hash(value) == hash(equal)
    assert len({value, equal}) == 1


@pytest.mark.parametrize(
    "other", [Value("b"), Value("a", [1]), Value("a", secret=b""), Narrower("a"), Compiled("a"), "a"]
)
def test_a_value_differs_from_another_one_and_from_other_classes(other: object) -> None:
    assert Value("a") != other
    assert other != Value("a")


def test_a_value_that_contains_what_cannot_be_hashed_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(Value("a", []))


def test_the_repr_is_that_of_attrs_without_hidden_fields() -> None:
    assert repr(Value("a", [1])) == repr(Compiled("a", [1])).replace("Compiled", "Value")
    assert "ducks" not in repr(Value("a"))


def test_the_repr_of_a_value_that_contains_itself_ends() -> None:
    value = Value("a")
    value.parts.append(value)

    assert repr(value) == "Value(name='a', parts=[...], note='')"


def test_classes_state_nothing_for_their_fields_that_the_methods_ignore() -> None:
    assert len(users()) > 30
    for cls in users():
        for field in attrs.fields(cls):
            assert field.repr in (True, False), (cls, field.name)
            assert field.hash is None, (cls, field.name)
            assert field.eq_key is None, (cls, field.name)
            assert not field.order or field.order is field.eq, (cls, field.name)


def test_classes_have_no_second_set_of_methods() -> None:
    for cls in users():
        own = {"__eq__", "__hash__", "__repr__"} & vars(cls).keys()
        generated = {name for name in own if vars(cls)[name].__code__.co_filename.startswith("<attrs")}
        assert not generated, cls
