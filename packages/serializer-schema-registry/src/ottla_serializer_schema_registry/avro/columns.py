"""Arrow columns as rows of an Avro schema: what fits is decided by the types, once; cells are then converted by column.

The conversion leaves arrays of the few types that `AvroKind` names. A cell without an Avro form is found by comparing
whole columns, and refuses its row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from ottla.errors import printable, quoted
from ottla.interfaces import AvroColumn, AvroKind
from ottla.plugins.serializers.packed_columns import repeated
from ottla.protocol.arrow_views import decoded, without_views
from ottla.protocol.primitives import varint
from ottla_serializer_schema_registry.arrow_columns import LISTS, is_one_of, shown, within
from ottla_serializer_schema_registry.avro.refused_cells import RefusedCells
from ottla_serializer_schema_registry.avro.schema import MOST_DIGITS, AvroSchema, default_bytes, is_decimal

Convert: TypeAlias = Callable[[Any, RefusedCells], Any]
"""Makes an array of the type that the kind needs, and notes the cells that have no such form."""

MOST_DECIMAL_BYTES: Final = 16
"""Bytes in which all decimals of that many digits fit."""

MOST_DEPTH: Final = 64
"""Types within types; an Arrow type has an end, but a schema may refer to itself."""

_INT: Final = pa.int32()
_LONG: Final = pa.int64()


@attrs.frozen(kw_only=True)
class ColumnPlan:
    """How the cells of a column of one Arrow type are written."""

    kind: AvroKind
    convert: Convert | None = None
    children: Sequence[ColumnPlan] = ()
    fields: Sequence[str] = ()
    """The names of the children in the struct; an empty name is a field that the struct lacks."""
    data: bytes = b""
    size: int = 0
    value_branch: int = -1
    null_branch: int = -1
    path: str = ""
    is_certain: bool = True
    """Whether every cell of the Arrow type has a form: a number that is never too large, and loses no digits."""

    def column(self, column: Any, refused: RefusedCells, *, is_row: bool = False) -> AvroColumn:
        """Convert a column, and note the cells that cannot be converted in *refused*. A row may always be null."""
        made = column if self.convert is None else self.convert(column, refused)
        if self.null_branch < 0 and made.null_count and not is_row and self.kind is not AvroKind.CONSTANT:
            refused.add(made.is_null(), made, f"{self.path} is null, which its Avro schema excludes")
        return AvroColumn(
            kind=self.kind,
            array=None if self.kind is AvroKind.CONSTANT else made,
            children=self._children(made, refused),
            data=self.data,
            size=self.size,
            value_branch=self.value_branch,
            null_branch=self.null_branch,
        )

    def _children(self, made: Any, refused: RefusedCells) -> Sequence[AvroColumn]:
        match self.kind:
            case AvroKind.RECORD:
                below = refused.of_children(made)
                fields = _fields(made)
                return [
                    child.column(fields[name], below) if name else AvroColumn(kind=child.kind, data=child.data)
                    for child, name in zip(self.children, self.fields, strict=True)
                ]
            case AvroKind.ARRAY:
                return [self.children[0].column(made.values, refused.of_children(made))]
            case AvroKind.MAP:
                entries, below = made.values, refused.of_children(made)
                return [child.column(entries.field(place), below) for place, child in enumerate(self.children)]
        return ()


def planned(schema: AvroSchema, kind: Any) -> ColumnPlan:
    """Return how to write a column of an Arrow type. Raises TypeError, which names the column that does not fit."""
    return _Planner(schema.named).plan(schema.schema, kind, "")


class _Planner:
    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._depth = 0

    def plan(self, schema: Any, kind: Any, path: str) -> ColumnPlan:
        """Return the plan for the column at *path*. Raises TypeError."""
        kind, before = _plain_type(kind)
        schema = self._named.get(schema, schema) if isinstance(schema, str) else schema
        self._depth += 1
        try:
            if self._depth > MOST_DEPTH:
                raise TypeError(f"{path} is nested more than {MOST_DEPTH} levels deep")
            if isinstance(schema, list):
                made = self._union(schema, kind, path)
            else:
                made = self._typed({"type": schema} if isinstance(schema, str) else schema, kind, path)
        finally:
            self._depth -= 1
        if before is None:
            return made
        return attrs.evolve(made, convert=before if made.convert is None else partial(_one_then, before, made.convert))

    def _union(self, branches: Sequence[Any], kind: Any, path: str) -> ColumnPlan:
        null_branch = branches.index("null") if "null" in branches else -1
        if pa.types.is_null(kind):
            if null_branch < 0:
                raise _unencodable(path, kind, branches)
            return ColumnPlan(kind=AvroKind.CONSTANT, data=varint(null_branch), path=path)
        others = [place for place, branch in enumerate(branches) if branch != "null"]
        reasons, fitting = [], []
        for place in others:
            try:
                made = self.plan(branches[place], kind, path)
            except TypeError as error:
                reasons.append(error)
            else:
                fitting.append(attrs.evolve(made, value_branch=place, null_branch=null_branch))
                # All cells have one branch: the first that holds them all, so that a double does not become a float.
                if made.is_certain:
                    return fitting[-1]
        if fitting:
            return fitting[0]
        raise reasons[0] if len(reasons) == 1 else _unencodable(path, kind, branches)

    def _typed(self, schema: Mapping[str, Any], kind: Any, path: str) -> ColumnPlan:
        name = schema["type"]
        if isinstance(name, dict | list) or (name not in _LEAVES and name in self._named and name not in _NESTED):
            return self.plan(name, kind, path)
        nested = {"record": self._record, "error": self._record, "array": self._array, "map": self._map}.get(name)
        if nested is not None:
            return nested(schema, kind, path)
        leaf = _LEAVES[name](schema, kind)
        if leaf is None:
            raise _unencodable(path, kind, schema)
        avro_kind, convert, size = leaf
        certain = _holds_all(schema, kind)
        return ColumnPlan(kind=avro_kind, convert=_at(path, convert), size=size, path=path, is_certain=certain)

    def _record(self, schema: Mapping[str, Any], kind: Any, path: str) -> ColumnPlan:
        if not pa.types.is_struct(kind):
            raise _unencodable(path, kind, schema)
        has = [kind.field(place).name for place in range(kind.num_fields)]
        wanted = [field["name"] for field in schema["fields"]]
        if unknown := [name for name in has if name not in wanted]:
            raise TypeError(
                f"the Avro record {printable(schema['name'])} has no field {within(path, unknown[0])!r}; it has "
                f"{', '.join(map(quoted, wanted[:20]))}: leave the column out, or add it to the schema"
            )
        if len(set(has)) < len(has):
            raise TypeError(f"{path or 'the value'} has two fields of one name, which an Avro record cannot have")
        children, fields = [], []
        for field in schema["fields"]:
            if field["name"] in has:
                children.append(self.plan(field["type"], kind.field(field["name"]).type, within(path, field["name"])))
                fields.append(field["name"])
            else:
                children.append(ColumnPlan(kind=AvroKind.CONSTANT, data=self._default(field, path)))
                fields.append("")
        return _nested(AvroKind.RECORD, path, children, fields=fields)

    def _default(self, field: Mapping[str, Any], path: str) -> bytes:
        """The bytes of a field that the columns lack: its default, as `send` takes it."""
        made = default_bytes(field, self._named)
        if made is None:
            raise TypeError(
                f"there is no column for the field {quoted(within(path, field['name']))}, which has no default in its "
                "Avro schema"
            )
        return made

    def _array(self, schema: Mapping[str, Any], kind: Any, path: str) -> ColumnPlan:
        if not is_one_of(kind, *LISTS):
            raise _unencodable(path, kind, schema)
        child = self.plan(schema["items"], kind.value_type, f"{path}[]")
        return _nested(AvroKind.ARRAY, path, (child,), convert=_compact)

    def _map(self, schema: Mapping[str, Any], kind: Any, path: str) -> ColumnPlan:
        if not pa.types.is_map(kind):
            raise _unencodable(path, kind, schema)
        children = (
            self.plan("string", kind.key_type, f"{path}.key"),
            self.plan(schema["values"], kind.item_type, f"{path}.value"),
        )
        return _nested(AvroKind.MAP, path, children, convert=_pairs)


def _nested(
    avro_kind: AvroKind,
    path: str,
    children: Sequence[ColumnPlan],
    *,
    convert: Convert | None = None,
    fields: Sequence[str] = (),
) -> ColumnPlan:
    return ColumnPlan(
        kind=avro_kind,
        convert=convert,
        children=children,
        fields=fields,
        path=path,
        is_certain=all(child.is_certain for child in children),
    )


_Leaf: TypeAlias = tuple[AvroKind, Callable[[Any, RefusedCells, str], Any] | None, int] | None
"""The kind, the conversion if it needs one, and the size, or None if the types do not fit."""

_NESTED: Final = ("record", "error", "array", "map", "enum", "fixed")


def _null(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    return (AvroKind.CONSTANT, None, 0) if pa.types.is_null(kind) else None


def _boolean(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    return (AvroKind.BOOLEAN, None, 0) if pa.types.is_boolean(kind) else None


def _int(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    match schema.get("logicalType"):
        case "date" if pa.types.is_date(kind):
            return AvroKind.INT, partial(_lossless, to=pa.date32(), seen_as=_INT), 0
        case "time-millis" if pa.types.is_time(kind):
            return AvroKind.INT, partial(_lossless, to=pa.time32("ms"), seen_as=_INT), 0
    if pa.types.is_integer(kind):
        return AvroKind.INT, None if kind == _INT else partial(_lossless, to=_INT), 0
    return None


def _long(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    logical = str(schema.get("logicalType"))
    if logical == "time-micros" and pa.types.is_time(kind):
        return AvroKind.LONG, partial(_lossless, to=pa.time64("us"), seen_as=_LONG), 0
    unit = {"millis": "ms", "micros": "us", "nanos": "ns"}.get(
        logical.removeprefix("local-").removeprefix("timestamp-")
    )
    if unit is not None and pa.types.is_timestamp(kind) and logical.startswith("local-") == (kind.tz is None):
        return AvroKind.LONG, partial(_lossless, to=pa.timestamp(unit, kind.tz), seen_as=_LONG), 0
    if pa.types.is_integer(kind):
        return AvroKind.LONG, None if kind == _LONG else partial(_lossless, to=_LONG), 0
    return None


def _floating(avro_kind: AvroKind, to: Any, schema: Mapping[str, Any], kind: Any) -> _Leaf:
    if kind == to:
        return avro_kind, None, 0
    if pa.types.is_floating(kind):
        return avro_kind, partial(_rounded, to=to), 0
    if pa.types.is_integer(kind):
        return avro_kind, partial(_lossless, to=to), 0
    return None


def _string(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    if is_one_of(kind, "string", "large_string"):
        return AvroKind.BYTES, None, 0
    return None


def _bytes(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    if is_decimal(schema):
        return _decimal(AvroKind.DECIMAL, 0, schema, kind)
    if is_one_of(kind, "binary", "large_binary"):
        return AvroKind.BYTES, None, 0
    if pa.types.is_fixed_size_binary(kind):
        return AvroKind.BYTES, lambda column, refused, path: column.cast(pa.binary()), 0
    return None


def _fixed(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    size = int(schema["size"])
    if is_decimal(schema):
        return _decimal(AvroKind.FIXED_DECIMAL, size, schema, kind)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == size:
        return AvroKind.FIXED, None, size
    if is_one_of(kind, "binary", "large_binary"):
        return AvroKind.FIXED, partial(_of_size, size=size), size
    return None


def _decimal(avro_kind: AvroKind, size: int, schema: Mapping[str, Any], kind: Any) -> _Leaf:
    # Cells have at most 38 digits, also where the schema allows more.
    precision, scale = min(int(schema["precision"]), MOST_DIGITS), int(schema.get("scale", 0))
    if 0 < size <= MOST_DECIMAL_BYTES:
        # What fits into the bytes may be less than the precision says.
        precision = min(precision, len(str(2 ** (8 * size - 1))) - 1)
    if scale > MOST_DIGITS:
        return None
    if pa.types.is_integer(kind):
        return avro_kind, partial(_whole_decimals, precision=precision, scale=scale), size
    if pa.types.is_decimal(kind) and kind.scale >= 0:  # Arrow cannot compute with negative ones
        return avro_kind, partial(_decimals, precision=precision, scale=scale), size
    return None


def _enum(schema: Mapping[str, Any], kind: Any) -> _Leaf:
    if is_one_of(kind, "string", "large_string"):
        return AvroKind.INT, partial(_places, symbols=list(schema["symbols"]), default=schema.get("default")), 0
    return None


_LEAVES: Final[Mapping[str, Callable[[Mapping[str, Any], Any], _Leaf]]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": partial(_floating, AvroKind.FLOAT, pa.float32()),
    "double": partial(_floating, AvroKind.DOUBLE, pa.float64()),
    "string": _string,
    "bytes": _bytes,
    "fixed": _fixed,
    "enum": _enum,
}


def _holds_all(schema: Mapping[str, Any], kind: Any) -> bool:
    """Whether every cell of an Arrow type has a form in the schema of a single value, to which it can be converted."""
    name = schema["type"]
    if pa.types.is_integer(kind):
        return bool(kind.bit_width - pa.types.is_signed_integer(kind) <= _DIGITS.get(name, 0))
    if pa.types.is_floating(kind):
        return bool(kind.bit_width <= _WIDTHS[name])
    if pa.types.is_time(kind) or pa.types.is_timestamp(kind):
        logical = str(schema.get("logicalType"))
        return any(logical.endswith(unit) for unit in _UNITS[_UNITS.index(_UNIT_NAMES[kind.unit]) :])
    if pa.types.is_decimal(kind):
        precision, scale = schema["precision"], schema.get("scale", 0)
        return bool(kind.scale <= scale and kind.precision - kind.scale <= precision - scale)
    return name not in ("enum", "fixed") or pa.types.is_fixed_size_binary(kind)


_DIGITS: Final[Mapping[str, int]] = {"int": 31, "long": 63, "float": 24, "double": 53}
"""Binary digits of whole numbers, without the sign."""

_WIDTHS: Final[Mapping[str, int]] = {"float": 32, "double": 64}
_UNITS: Final = ("seconds", "millis", "micros", "nanos")
_UNIT_NAMES: Final[Mapping[str, str]] = dict(zip(("s", "ms", "us", "ns"), _UNITS, strict=True))


def _rounded(column: Any, refused: RefusedCells, path: str, *, to: Any) -> Any:
    """The column with the nearest numbers of a type, as `send` rounds a float."""
    made = column.cast(to, safe=False)
    large = pc.and_(pc.is_finite(column), pc.is_inf(made))
    refused.add(large, column, f"{path or 'it'} has a value that its Avro schema cannot hold: {{}} as {to}")
    return made


def _lossless(column: Any, refused: RefusedCells, path: str, *, to: Any, seen_as: Any = None) -> Any:
    """The column in another type; cells that would change are refused."""
    try:
        made = column.cast(to)
    except pa.ArrowInvalid:
        made = column.cast(to, safe=False)
        changed = pc.not_equal(made.cast(column.type, safe=False), column)
        # A number beyond the range may come back as it was, with the other sign in between.
        if pa.types.is_integer(column.type) and pa.types.is_integer(to):
            changed = pc.or_(changed, pc.xor(_is_negative(made), _is_negative(column)))
        refused.add(changed, column, f"{path or 'it'} has a value that its Avro schema cannot hold: {{}} as {to}")
    return made if seen_as is None else made.view(seen_as)


def _is_negative(column: Any) -> Any:
    return pc.less(column, pa.scalar(0, column.type))


def _whole_decimals(column: Any, refused: RefusedCells, path: str, *, precision: int, scale: int) -> Any:
    return _decimals(column.cast(pa.decimal128(20, 0)), refused, path, precision=precision, scale=scale)


def _decimals(column: Any, refused: RefusedCells, path: str, *, precision: int, scale: int) -> Any:
    wide = pa.decimal256(76, scale)
    made = column.cast(wide, safe=False)
    changed = pc.not_equal(
        made.cast(pa.decimal256(76, column.type.scale), safe=False), column.cast(pa.decimal256(76, column.type.scale))
    )
    large = pc.greater(pc.abs(made), pa.scalar(_largest(precision, scale), wide))
    wrong = pc.or_(changed, large)
    refused.add(
        wrong,
        column,
        f"{path or 'it'} has a value that does not fit a decimal of {precision} digits, {scale} of them "
        "decimal places: {}",
    )
    return pc.if_else(pc.fill_null(wrong, False), pa.scalar(None, wide), made).cast(pa.decimal128(38, scale))


def _places(column: Any, refused: RefusedCells, path: str, *, symbols: Sequence[str], default: str | None) -> Any:
    made = pc.index_in(column, value_set=pa.array(symbols, column.type))
    refused.add(pc.and_(pc.is_null(made), pc.is_valid(column)), column, f"{path or 'it'} has no such symbol: {{}}")
    return made


def _of_size(column: Any, refused: RefusedCells, path: str, *, size: int) -> Any:
    wrong = pc.not_equal(pc.binary_length(column), size)
    refused.add(wrong, column, f"{path or 'it'} does not have the {size} bytes of its Avro type")
    kept = pc.if_else(pc.fill_null(wrong, True), pa.scalar(bytes(size), column.type), column)
    made = kept.cast(pa.binary(size))
    return pc.if_else(column.is_valid(), made, pa.scalar(None, made.type)) if column.null_count else made


def _fields(column: Any) -> Mapping[str, Any]:
    """The columns of a struct, null where it is null: what is below a null may be anything, such as a wrong index."""
    names = [column.type.field(place).name for place in range(column.type.num_fields)]
    return dict(zip(names, column.flatten() if column.null_count else map(column.field, names), strict=True))


def _compact(column: Any, refused: RefusedCells) -> Any:
    """The lists, with offsets that begin at 0 and items of these rows only."""
    # Arrow's cast between kinds of lists supposes that those of a view are in order, and shortens nested nulls.
    if not is_one_of(column.type, "list", "large_list"):
        return _rebuilt(column)
    if not column.offset and not column.null_count and len(column) and not column.offsets[0].as_py():
        return column if len(column.values) == column.offsets[-1].as_py() else _rebuilt(column)
    return _rebuilt(column)


def _rebuilt(column: Any) -> Any:
    lengths = pc.fill_null(pc.list_value_length(column), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), ends])
    mask = pc.is_null(column) if column.null_count else None
    return pa.LargeListArray.from_arrays(offsets, column.flatten(), mask=mask)


def _pairs(column: Any, refused: RefusedCells) -> Any:
    """The map as lists of pairs."""
    entries = column.values
    listed = pa.list_(entries.type)
    lists = pa.Array.from_buffers(listed, len(column), column.buffers()[:2], offset=column.offset, children=[entries])
    return _compact(lists, refused)


def _plain_type(kind: Any) -> tuple[Any, Convert | None]:
    """An Arrow type without the ways to store it, and how to get there."""
    if isinstance(kind, pa.BaseExtensionType):
        storage, before = _plain_type(kind.storage_type)
        return storage, partial(_one_then, _storage, before) if before else _storage
    if pa.types.is_dictionary(kind):
        value, before = _plain_type(without_views(kind.value_type))
        return value, _decoded if before is None else partial(_one_then, _decoded, before)
    if pa.types.is_run_end_encoded(kind):
        value, before = _plain_type(without_views(kind.value_type))
        return value, partial(_without_runs, before)
    plain = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}.get(kind)
    return (kind, None) if plain is None else (plain, lambda column, refused: column.cast(plain))


def _decoded(column: Any, refused: RefusedCells) -> Any:
    return decoded(column)


def _without_runs(before: Convert | None, column: Any, refused: RefusedCells) -> Any:
    return repeated(column, column.values if before is None else before(column.values, refused))


def _storage(column: Any, refused: RefusedCells) -> Any:
    return column.storage


def _one_then(first: Convert, then: Convert, column: Any, refused: RefusedCells) -> Any:
    return then(first(column, refused), refused)


def _at(path: str, convert: Callable[[Any, RefusedCells, str], Any] | None) -> Convert | None:
    return None if convert is None else lambda column, refused: convert(column, refused, path)


def _largest(precision: int, scale: int) -> Any:
    from decimal import Decimal

    return Decimal(10**precision - 1).scaleb(-scale)


def _unencodable(path: str, kind: Any, schema: Any) -> TypeError:
    named = schema.get("logicalType") or schema["type"] if isinstance(schema, dict) else schema
    return TypeError(f"{shown(path)} of type {kind} cannot be encoded as Avro's {named!r}")
