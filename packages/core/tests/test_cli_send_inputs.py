"""What `ottla send` reads: lines, fields of JSON, CSV, positions, and the state of a run."""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import signal
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyarrow import feather

from command_runner import CliRunner
from ottla.cli import main
from ottla.cli.commands import ottla
from ottla.cli.interruption import StoppedError
from ottla.cli.send import inputs
from ottla.cli.send.columns import InputError, Parts, sendable
from ottla.cli.send.csv_tables import csv_tables
from ottla.cli.send.inputs import Input
from ottla.cli.send.lines import json_table, line_blocks, line_table, split
from ottla.cli.send.state import Position, Prepared, State, differences, locked, subject_of
from ottla.cli.send.target import Target
from ottla.errors import OttlaError
from ottla.transactions import PreparedTransaction

USAGE, INTERRUPTED = 2, 130
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("max_bytes", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("text", [b"", b"a", b"a\n", b"a\nbb\n\nccc", b"\n\n", b"long line\nx\n"])
def test_blocks_have_all_lines_whatever_their_size(text: bytes, max_bytes: int) -> None:
    blocks = line_blocks(io.BytesIO(text), max_bytes=max_bytes)
    expected = text.removesuffix(b"\n").split(b"\n") if text else []

    assert [line for block in blocks for line in split(block, blank=True)] == expected


def test_lines_are_there_when_a_pipe_has_them() -> None:
    pieces = iter([b"a\nb", b"\nc\n", b"d", b""])
    blocks = line_blocks(io.BytesIO(b"not read"), max_bytes=100, read=lambda _size: next(pieces))

    assert next(blocks) == b"a"
    assert next(pieces) == b"\nc\n"  # not read before the next block
    assert list(blocks) == [b"bd"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_lines_of_a_named_pipe_are_there_when_they_come(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)  # which does not wait for a reader, and holds the end back
    blocks = Input.of(str(tmp_path / "pipe"), None, Parts(), None).blocks()
    try:
        os.write(writer, b"a\nb\n")

        assert next(blocks).count == 2
    finally:
        os.close(writer)


@pytest.mark.parametrize("name", ["a.txt", "a.ndjson"])
def test_the_sizes_of_blocks_are_those_of_their_lines(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 64)
    (tmp_path / name).write_text('{"id": 1}\n' * 40)
    blocks = list(Input.of(str(tmp_path / name), None, Parts(), None).blocks())

    assert len(blocks) > 1
    assert sum(block.size for block in blocks) == 400


def test_an_endless_line_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.send.lines._LONGEST", 100)
    with pytest.raises(InputError, match="a line is longer than 100 bytes"):
        list(line_blocks(io.BytesIO(b"x" * 1000), max_bytes=10))


@pytest.mark.parametrize("form", ["lines", "ndjson", "csv", "arrow"])
def test_a_closed_standard_input_is_an_input_that_cannot_be_read(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # as Python has it in a program that was started with `<&-`

    with pytest.raises(InputError, match=r"^the standard input is closed; name a file$"):
        list(Input.of("-", form, Parts(), None).blocks())


def test_only_the_end_of_a_line_of_windows_is_left_out() -> None:
    assert split(b"a\r\nb\rc\r\n\r", blank=True) == [b"a", b"b\rc", b""]


@pytest.mark.parametrize(
    ("field", "key"),
    [
        (['"a"', '"b"'], ["a", "b"]),
        (["1", "2"], ["1", "2"]),
        (["1", '"2"'], ["1", "2"]),
        (["1.50", "null"], ["1.50", None]),
        (["123456789012345678901234567890", "1"], ["123456789012345678901234567890", "1"]),
        (['"2026-01-31"', '"2026-02-01"'], ["2026-01-31", "2026-02-01"]),
        (["true", '"x"'], ["true", "x"]),
    ],
)
def test_a_key_is_the_text_of_its_field(field: list[str], key: list[str | None]) -> None:
    lines = [b'{"k": %s, "z": {}}' % each.encode() for each in field]

    assert json_table(lines, Parts(key="k"), 0)["key"].to_pylist() == key


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"k": 1', "record 8 is not JSON"),
        (b"[1]", "record 8 is not a JSON object, so it has no field 'k'"),
        (b'{"k": {}}', "field 'k' of record 8: a key must be text or a number"),
        (b'{"k": 1}{"k": 2}', "record 8 is not JSON"),
        (b'{"k": NaN}', "record 8 is not JSON: NaN is no JSON value"),
        (b'{"k": "a", "z": [-Infinity]}', "record 8 is not JSON: -Infinity is no JSON value"),
        (b"null", "record 8 is not a JSON object, so it has no field 'k'"),
    ],
)
def test_a_line_that_is_no_record_is_named(line: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        json_table([b'{"k": 1}', line], Parts(key="k"), 7)


@pytest.mark.parametrize("part", ["key", "value", "headers", "partition", "timestamp"])
@pytest.mark.parametrize("lines", [[b"null"], [b" null", b'{"k": "x"}']])
def test_a_first_line_of_null_is_refused(part: str, lines: list[bytes]) -> None:
    """pyarrow ends the process with a segmentation fault, so it must not see the line."""
    named: dict[str, Any] = {part: "k"}

    with pytest.raises(InputError, match=r"^record 7 is not a JSON object, so it has no field 'k'$"):
        json_table(lines, Parts(**named), 7)


@pytest.mark.parametrize("part", ["key", "value", "headers", "partition", "timestamp"])
def test_a_field_that_no_record_of_a_file_has_is_refused(part: str, tmp_path: Path) -> None:
    """With a misspelled --value, all records would be tombstones."""
    file = tmp_path / "a.ndjson"
    file.write_text('{"id": 1, "deep": {"idd": 2}}\n{"id": 2}\n')

    named: dict[str, Any] = {part: "idd"}

    with pytest.raises(InputError) as caught:
        list(Input.of(str(file), None, Parts(**named), None).blocks())

    assert str(caught.value) == (
        f"{file}: no record has the field 'idd' that --{part} names; fields of the first one: 'id', 'deep'"
    )


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ('{"n": "café"}'.encode("latin-1"), "'n'"),
        (b'{"n": %s}' % (b"9" * 5_000), "'n'"),
        ('\ufeff{"n": 1}'.encode(), "'n'"),
        (b'{"n": %s}' % DEEP, "none"),
    ],
    ids=["not UTF-8", "many digits", "a byte order mark", "deep"],
)
def test_a_field_is_also_absent_from_lines_that_only_pyarrow_reads(line: bytes, fields: str, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_bytes(line + b"\n")

    with pytest.raises(InputError, match=rf"no record has the field 'k' .*; fields of the first one: {fields}$"):
        list(Input.of(str(file), None, Parts(key="k"), None).blocks())


def test_a_line_that_begins_with_a_blank_is_read_as_others_are() -> None:
    """Python's json takes no number of so many digits."""
    lines = [b' {"k": "x", "n": %s}' % (b"9" * 5_000), b'\t{"k": "y"}']

    assert json_table(lines, Parts(key="k"), 0)["key"].to_pylist() == ["x", "y"]


def test_a_field_that_only_pyarrow_reads_is_not_absent(tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_bytes(b'{"k": "x", "n": %s}\n' % DEEP)
    [block] = Input.of(str(file), None, Parts(key="k"), None).blocks()

    assert block.content.table["key"].to_pylist() == ["x"]


@pytest.mark.parametrize("second", ['{"k": null}', '{"k": "x"}'])
def test_a_field_may_be_absent_from_some_records_of_a_file(second: str, tmp_path: Path) -> None:
    file = tmp_path / "a.ndjson"
    file.write_text('{"id": 1}\n' + second)

    blocks = list(Input.of(str(file), None, Parts(key="k"), None).blocks())

    assert [block.count for block in blocks] == [2]


def test_a_pipe_whose_records_lack_a_field_is_sent_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first lines of a pipe may be few, and those with the field come later."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": 1}\n')))

    blocks = list(Input.of("-", "ndjson", Parts(key="k"), None).blocks())

    assert [block.count for block in blocks] == [1]
    assert capsys.readouterr().err == (
        "Up to now no record has the field 'k' that --key names; fields of the first one: 'id'\n"
    )


def test_reading_imports_no_pandas(tmp_path: Path) -> None:
    """It would take most of the time of a command that sends a few lines."""
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    program = """
import os, sys
from ottla.cli.send.columns import Parts
from ottla.cli.send.csv_tables import csv_tables
from ottla.cli.send.lines import json_table, line_table

line_table([b"a", b"b"], None, 0)
line_table([b"a:b"], b":", 0)
json_table([b'{"k": 1}'], Parts(key="k"), 0)
list(csv_tables(sys.argv[1], "a.csv", block_bytes=1_000))
print("pandas" in sys.modules, flush=True)
os._exit(0)  # pyarrow 19 may abort a process that ends while its thread leaves the file
"""
    command = [sys.executable, "-c", program, str(tmp_path / "a.csv")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout == "False\n"


@pytest.mark.parametrize("part", ["key", "value", "headers", "timestamp"])
@pytest.mark.parametrize(
    ("field", "reason"),
    [
        (rb'"\ud800"', "field 'f' of record 8"),
        (rb'{"\ud800": "v"}', "field 'f' of record 8"),
        (rb'{"name": "\ud800"}', "field 'f' of record 8"),
        (DEEP, "(field 'f' of )?record 8 is nested too deeply|field 'f' of record 8"),
    ],
    ids=["text", "a name", "inside", "deep"],
)
def test_a_field_that_no_record_can_hold_is_named(part: str, field: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        json_table([b'{"f": null}', b'{"f": %s}' % field], Parts(**{part: "f"}), 7)  # type: ignore[arg-type]


def test_a_value_may_be_any_field() -> None:
    lines = [b'{"v": "text"}', b'{"v": {"a": [1.0, null]}}', b'{"v": null}']

    assert json_table(lines, Parts(value="v"), 0)["value"].to_pylist() == ["text", '{"a":[1.0,null]}', None]


def test_a_row_of_csv_with_too_few_columns_is_named_by_its_number(tmp_path: Path) -> None:
    """The line with the names is number 1. The row may be in any block."""
    (tmp_path / "a.csv").write_text("id,name\n" + "1,a\n" * 1000 + "2\n" + "3,c\n")

    with pytest.raises(InputError, match=r"a\.csv cannot be read as CSV: .*Row #1002: Expected 2 columns, got 1: 2"):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


class Slow(io.FileIO):
    """A pipe whose writer is slow: each read returns few bytes."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(1)

    def readinto(self, buffer: Any) -> int:
        return super().readinto(memoryview(buffer)[:1])


@pytest.mark.parametrize(
    ("header", "names"),
    [
        (b"id,number\n", ["id", "number"]),
        (b"\xef\xbb\xbfid,n\xc3\xbamero\r\n", ["id", "n\u00famero"]),
        (b'"a\nid","the ""number"""\r\n', ["a\nid", 'the "number"']),
        (b'"a\r\nid","b\n"\n', ["a\r\nid", "b\n"]),
    ],
)
@pytest.mark.parametrize("rows", [b"007,1.0\n", b"007,1.0", b"007,1.0\n\xc3\xa9,\n"])
def test_all_columns_of_csv_are_text_however_its_header_arrives(
    header: bytes, names: list[str], rows: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.csv").write_bytes(header + rows)
    at_once = [table for table, _size in csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=1_000)]
    monkeypatch.setattr(io, "FileIO", Slow)
    slowly = [table for table, _size in csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=1_000)]

    for tables in (at_once, slowly):
        found = pa.concat_tables(tables)
        assert found.schema == pa.schema([(name, pa.string()) for name in names])
        assert found.slice(0, 1).to_pylist() == [dict(zip(names, ("007", "1.0"), strict=True))]


@pytest.mark.parametrize("header", [b"a,b", b"a,b\n", b"a,b\r\n", b"a,b\r", b'a,"b"', b"\xef\xbb\xbfa,b"])
def test_csv_with_a_header_line_alone_has_no_rows(header: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(header)

    assert [table.num_rows for table, _size in csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500)] in (
        [],
        [0],
    )


def test_each_damage_of_a_parquet_file_is_an_error_of_the_input(tmp_path: Path) -> None:
    """Most are an OSError of pyarrow, some a ValueError."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"value": ["abcd", "efgh"] * 100}), path, compression="none", store_schema=False)
    content = path.read_bytes()
    errors = []
    for place in range(4, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        try:
            list(Input.of(str(path), None, Parts(value="value"), None).blocks())
        except (InputError, OttlaError, OSError) as error:
            errors.append(error)

    assert any("cannot be read to its end: " in str(error) for error in errors if isinstance(error, InputError))


def test_an_arrow_file_with_short_views_is_read(tmp_path: Path) -> None:
    """pyarrow before 25 cannot measure such a column."""
    table = pa.table({"value": pa.array(["x", "y"]).cast(pa.string_view())})
    with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as writer:
        writer.write_table(table)

    blocks = Input.of(str(tmp_path / "a.arrow"), None, Parts(), None).blocks()
    assert sum(block.count for block in blocks) == 2


@pytest.mark.parametrize("names", ["sep=a,id", "a;b,id", "a|b,id"])
def test_columns_of_csv_may_have_any_names(names: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{names}\nx,1\n")
    [(table, _size)] = csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500)

    assert table.column_names == names.split(",")


def test_a_block_of_csv_may_end_between_the_lines_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f'{number},"a\nb\nc"\n' for number in range(40)))
    tables = [table for table, _size in csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=50)]

    assert len(tables) > 1
    assert [text for table in tables for text in table["text"].to_pylist()] == ["a\nb\nc"] * 40


@pytest.mark.parametrize("start", [b"", b"\n"])
def test_csv_without_a_header_line_is_refused(start: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(start)

    with pytest.raises(InputError, match=r"^a\.csv has no header line with the names of its columns$"):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


@pytest.mark.parametrize(
    ("header", "error"),
    [
        (b"column," * 200_000, r"is longer than 1048576 bytes"),
        (b'id,"name\n' + b"1,a\n" * 300_000, r"cannot be read: field larger than field limit"),
    ],
    ids=["long", "open quote"],
)
def test_a_header_of_csv_that_has_no_end_is_refused(header: bytes, error: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(header)

    with pytest.raises(InputError, match=rf"^the header line of a\.csv {error}"):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


@pytest.mark.parametrize("rest", [b"1,a\n", b"1,\xe9\n"])
def test_a_column_of_csv_whose_name_is_not_utf_8_is_shown(tmp_path: Path, rest: bytes) -> None:
    """As a spreadsheet may write it."""
    (tmp_path / "a.csv").write_bytes(b"id,pr\xe9nom\n" + rest)

    with pytest.raises(InputError, match=r"a\.csv has the column 'pr\\xe9nom', which is not UTF-8: save it as UTF-8"):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


@pytest.mark.parametrize(
    ("name", "delimiter", "separator"),
    [("a.csv", ";", ";"), ("a.csv", r"\t", "\t"), ("a.csv", "\t", "\t"), ("a.tsv", None, "\t"), ("a.tsv", ",", ",")],
)
def test_columns_of_csv_may_have_another_delimiter(
    name: str, delimiter: str | None, separator: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(separator.join(("id", "price")) + "\n" + separator.join(("007", '"1,5"')) + "\n")
    parts = Parts(key="id", value="price")
    [block] = Input.of(str(tmp_path / name), None, parts, None, delimiter).blocks()

    assert block.content.table.to_pylist() == [{"id": "007", "price": "1,5"}]


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_csv_that_seems_to_have_another_delimiter_is_refused(separator: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"id{separator}name\n1{separator}x\n")
    asked = Input.of(str(tmp_path / "a.csv"), None, Parts(), None)

    with pytest.raises(InputError, match=r"a single column, 'id.*name': if .* add --delimiter '.*', otherwise"):
        list(asked.blocks())
    assert sum(block.count for block in attrs.evolve(asked, delimiter=",").blocks()) == 1


@pytest.mark.parametrize("given", ["", ";;", "\n", '"', "é"])
def test_a_delimiter_is_one_character(given: str) -> None:
    with pytest.raises(InputError, match="--delimiter takes one character of ASCII"):
        Input.of("a.csv", None, Parts(), None, given)


def test_a_delimiter_is_for_csv() -> None:
    with pytest.raises(InputError, match=r"--delimiter is for CSV: name the format of a\.ndjson with --format"):
        Input.of("a.ndjson", None, Parts(), None, ";")


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [None, ";"])
def test_a_first_line_of_csv_for_excel_is_refused(mark: bytes, delimiter: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(mark + b"sep=;\r\nid;name\r\n1;x\r\n")
    with pytest.raises(InputError, match=r"the first line of .*a\.csv is for Excel: remove it, and pass --delimiter"):
        list(Input.of(str(tmp_path / "a.csv"), None, Parts(), None, delimiter).blocks())


@pytest.mark.parametrize("form", [None, "ndjson"])
def test_json_in_utf_16_is_refused(form: str | None, tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes('{"a":1}\n{"a":2}\n'.encode("utf-16"))
    with pytest.raises(InputError, match=r"is not lines of text, but .* text in UTF-16: it has zero bytes"):
        list(Input.of(str(tmp_path / "a.ndjson"), form, Parts(), None).blocks())


def test_a_byte_order_mark_is_no_part_of_a_line_of_json(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_bytes(b'\xef\xbb\xbf{"a":1}\n{"a":2}\n')
    [block] = Input.of(str(tmp_path / "a.ndjson"), None, Parts(), None).blocks()

    assert block.content.table["value"].to_pylist() == [b'{"a":1}', b'{"a":2}']


def test_csv_of_the_standard_input_is_named_so_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(InputError, match=r"^the standard input has no header line"):
            list(Input.of("-", "csv", Parts(), None).blocks())


# Positions


@pytest.mark.parametrize(
    ("rows", "row"),
    [
        (b'1,"a\n2,b\n', 2),
        (b'1,"a', 2),
        (b'1,"a""\n', 2),
        (b'"1,a\n2,b\n', 2),
        (b'1,a\n2,"', 3),
        (b"1,a\n" * 500 + b'2,"b\r\n3,c\r\n', 502),
    ],
)
def test_a_quote_of_csv_that_is_not_closed_is_refused(rows: bytes, row: int, tmp_path: Path) -> None:
    """pyarrow alone takes all rows to the end for the value, as in a file that was cut off."""
    (tmp_path / "a.csv").write_bytes(b"id,name\n" + rows)
    tables = csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500)

    with pytest.raises(
        InputError, match=rf"^a\.csv cannot be read as CSV: Row #{row} has a quote that is not closed up"
    ):
        list(tables)


def test_a_header_of_csv_with_a_quote_that_is_not_closed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,"name\n1,a\n')

    with pytest.raises(
        InputError, match=r"cannot be read as CSV: the header line has a quote that is not closed up to the end"
    ):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


def test_an_error_of_csv_has_the_hint_that_a_quote_may_not_be_closed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name\n1,"a\n' + "2,b\n" * 500)

    with pytest.raises(InputError, match=r"; a row is longer than the blocks .*, or a quote is not closed$"):
        list(csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500))


@pytest.mark.parametrize(
    ("end", "last"),
    [
        ("2,b", "b"),
        ("2,b\n", "b"),
        ("2,b\r", "b"),
        ("2,b\r\n\r\n", "b"),
        ('2,""""\n', '"'),
        ('2,"b\n"', "b\n"),
        ("2,", ""),
    ],
)
def test_the_last_row_of_csv_is_read_whatever_ends_it(end: str, last: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(f"id,name\n1,a\n{end}".encode())
    [(table, _size)] = csv_tables(str(tmp_path / "a.csv"), "a.csv", block_bytes=500)

    assert table.to_pylist() == [{"id": "1", "name": "a"}, {"id": "2", "name": last}]


@pytest.mark.parametrize("skip", [0, 1, 5, 41, 99, 100])
@pytest.mark.parametrize("name", ["a.ndjson", "a.csv", "a.txt"])
def test_records_before_a_position_are_left_out(
    name: str, skip: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 64)
    rows = [f'{{"id":{number}}}' if name == "a.ndjson" else f"{number}" for number in range(100)]
    (tmp_path / name).write_text("\n".join((["id"] if name == "a.csv" else []) + rows) + "\n")
    parts = Parts(value=None if name == "a.ndjson" else "id") if name != "a.txt" else Parts()
    blocks = list(Input.of(str(tmp_path / name), None, parts, None).blocks(skip=skip))
    column = "id" if name == "a.csv" else "value"
    values = [value for block in blocks for value in block.content.table[column].to_pylist()]

    assert [value if isinstance(value, str) else value.decode() for value in values] == rows[skip:]
    assert all(one.first + one.count == other.first for one, other in pairwise(blocks))


def test_a_file_that_is_shorter_than_its_position_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    with pytest.raises(InputError, match="has 1 record, fewer than the 2 that were sent from it"):
        list(Input.of(str(tmp_path / "a.txt"), None, Parts(), None).blocks(skip=2))


def test_columns_that_are_missing_or_unfit_are_named() -> None:
    import pyarrow as pa

    with pytest.raises(InputError, match="there is no column 'b'; the columns are a"):
        sendable(pa.table({"a": [1]}), Parts(key="b"))
    with pytest.raises(InputError, match="the column 'a' is double; a key must be text, bytes or a whole number"):
        sendable(pa.table({"a": [1.5]}), Parts(key="a"))
    with pytest.raises(InputError, match="the column 'a' must be milliseconds since 1970 or times"):
        sendable(pa.table({"a": ["soon"], "value": ["x"]}), Parts(timestamp="a"))


@pytest.mark.parametrize("part", ["key", "value", "headers", "partition", "timestamp"])
def test_a_named_column_that_occurs_twice_is_named(part: str) -> None:
    table = pa.table([["1"], ["2"], ["v"]], names=["k", "k", "value"])

    named: dict[str, Any] = {part: "k"}

    with pytest.raises(InputError, match=r"^two columns are named 'k'$"):
        sendable(table, Parts(**named))


def test_default_columns_that_occur_twice_are_named() -> None:
    for name in ("key", "value"):
        with pytest.raises(InputError, match=f"^two columns are named '{name}'$"):
            sendable(pa.table([["1"], ["2"], ["3"]], names=[name, name, "other"]), Parts())


def test_a_partition_that_is_no_whole_number_is_named() -> None:
    for column in (["0", "first"], [0.5, 1.0], [[0], [1]]):
        with pytest.raises(InputError, match=r"^the column 'p' must be whole numbers: "):
            sendable(pa.table({"p": column, "value": ["a", "b"]}), Parts(partition="p"))


def test_a_line_without_its_separator_is_named_by_its_number() -> None:
    lines = Input.of("-", "lines", Parts(), b"::")
    with pytest.raises(InputError, match=r"^record 7 has no '::' after its key$"):
        line_table([b"a::1", b"b:2"], lines.separator, 6)


def test_csv_with_two_columns_of_one_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,id\n1,a,2\n")
    with pytest.raises(InputError, match=r"^two columns of .*a\.csv have one name$"):
        list(Input.of(str(tmp_path / "a.csv"), None, Parts(), None).blocks())


# State


def state(tmp_path: Path) -> State:
    transaction = PreparedTransaction(transactional_id="t", producer_id=1, epoch=2, level=2)
    found = State.new(subject_of("orders", [], {"key": None}), Target(cluster="a cluster", topic_id="a topic"))
    return attrs.evolve(
        found, position=Position(1, 2), prepared=Prepared(transaction=transaction, position=Position(1, 9))
    )


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = state(tmp_path)
    written.save(tmp_path / "STATE")

    assert State.load(tmp_path / "STATE") == written


@pytest.mark.parametrize("text", ["", "{}", '{"form": 1}', "[]", "[" * 100_000, '{"form": "\\u001b[31m"}'])
def test_another_file_is_no_state(text: str, tmp_path: Path) -> None:
    (tmp_path / "STATE").write_text(text)
    with pytest.raises(InputError, match="STATE is not a state that this version of `ottla send` wrote"):
        State.load(tmp_path / "STATE")


def test_a_state_that_was_changed_is_refused(tmp_path: Path) -> None:
    written, path = state(tmp_path), tmp_path / "STATE"
    written.save(path)
    whole = path.read_bytes()

    for number, byte in itertools.product(range(len(whole)), (0x00, 0x31, 0x7B, 0x80, 0xFF)):
        path.write_bytes(whole[:number] + bytes([whole[number] ^ byte or byte]) + whole[number + 1 :])
        try:
            assert State.load(path) == written  # the change was not in what JSON means
        except InputError as error:
            assert str(path) in str(error)  # noqa: PT017 - each of a thousand changes ends one way or the other


def test_a_changed_position_is_refused_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "STATE"
    state(tmp_path).save(path)
    path.write_text(path.read_text().replace('"record": 2', '"record": 0'))

    with pytest.raises(InputError, match="was changed or damaged after `ottla send` wrote it"):
        State.load(path)


def test_a_state_is_for_the_same_files_and_options(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    before = subject_of("orders", [str(file)], {"key": "id", "constants": ("a=b",)})

    assert differences(before, subject_of("orders", [str(file)], {"key": "id", "constants": ("a=b",)})) == []
    file.write_text("another")
    now = subject_of("orders", [str(file)], {"key": "name", "constants": ("a=b",)})
    assert differences(before, now) == ["files", "key"]


def test_a_state_has_one_user_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    path = tmp_path / "STATE"
    with locked(path), pytest.raises(InputError, match="another process uses"), locked(path):
        pass


@pytest.mark.parametrize("made", ["link", "pipe", "folder"])
def test_a_lock_that_is_no_regular_file_is_refused_unchanged(made: str, tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    lock, other = tmp_path / "STATE.lock", tmp_path / "other"
    other.write_text("precious")
    if made == "link":
        lock.symlink_to(other)
    elif made == "pipe":
        os.mkfifo(lock)
    else:
        lock.mkdir()

    with pytest.raises(InputError, match="is not a regular file"), locked(tmp_path / "STATE"):
        pass
    assert other.read_text() == "precious"


def test_a_state_is_not_written_to_what_a_link_names(tmp_path: Path) -> None:
    path, other = tmp_path / "STATE", tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "STATE.new").symlink_to(other)
    state = State.new({}, Target(cluster="c", topic_id=None))

    state.save(path)

    assert State.load(path) == state
    assert other.read_text() == "precious"


def test_a_state_that_cannot_be_written_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "STATE"

    with pytest.raises(InputError, match=r"STATE\.lock cannot be opened, .* --resume .*: No such file"), locked(path):
        pass
    with pytest.raises(InputError, match=r"STATE cannot be written: No such file or directory$"):
        State.new({}, Target(cluster="c", topic_id=None)).save(path)


def test_a_state_on_a_full_disk_keeps_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "STATE"
    before = State.new({}, Target(cluster="c", topic_id=None))
    before.save(path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"STATE cannot be written: No space left on device$"):
        State.new({}, Target(cluster="other", topic_id=None)).save(path)

    assert State.load(path) == before


def test_a_state_is_saved_where_files_have_no_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "STATE"
    state = State.new({}, Target(cluster="c", topic_id=None))
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setattr(os, "open", refuse)

    with locked(path):
        state.save(path)

    assert State.load(path) == state


def refuse(name: str, _flags: int) -> None:
    """Raise what `os.open` of a folder raises on Windows."""
    raise PermissionError(13, "Permission denied", name)


# Usage


def usage(*arguments: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(ottla, ["send", "orders", "--bootstrap-servers", "localhost:9", *arguments], input=given)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--key", "id"], "lines have no columns: name the format of the standard input with --format"),
        (["--format", "parquet"], "it cannot come from the standard input"),
        (["--format", "ndjson", "--value", "*"], "leave --value out"),
        (["--resume", "STATE"], "--resume needs files"),
        (["--header", "x"], "--header takes NAME=VALUE"),
        (["-c", "sesame"], "--config takes KEY=VALUE"),
        (["notes.json"], "notes.json may be one document of several lines: pass --format ndjson"),
        (["orders.csv.gz"], "orders.csv.gz is compressed: unpack it, such as by gunzip"),
        (["orders.csv.gz"], "with --format csv"),
        (["log.zst"], "with --format lines"),
        (["--key", "\udcff"], "the option's value '\\udcff' is not UTF-8"),
        (["--header", "name=\udcff"], "is not UTF-8"),
        (["--key-separator", "\udcff"], "is not UTF-8"),
        (["--key-separator", ""], "--key-separator is empty; leave it out"),
        (["--format", "csv", "--key", ""], "--key is empty; leave it out"),
        (["--key-separator", "=", "orders.csv"], "is for lines, but the format of orders.csv is csv: name the column"),
        (["--format", "ndjson", "--key-separator", "="], "the format of the standard input is ndjson"),
        (["--headers", "h", "--header", "a=b", "orders.csv"], "--headers and --header exclude each other"),
    ],
)
def test_options_that_do_not_fit_are_wrong_usage(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for argument in arguments:
        if not argument.startswith("-") and "." in argument:
            Path(argument).write_bytes(b"{}")
    result = usage(*arguments)

    assert result.exit_code == USAGE
    assert reason in " ".join(result.output.split())
    assert "sesame" not in result.output


@pytest.mark.parametrize("others", [[], ["second.csv"]])
def test_a_file_in_place_of_the_topic_is_wrong_usage(
    others: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("first.csv", *others):
        Path(name).write_bytes(b"id\n1\n")
    result = CliRunner().invoke(ottla, ["send", "first.csv", *others, "--bootstrap-servers", "localhost:9"])

    assert result.exit_code == USAGE
    assert "first.csv is a file, and the first argument is the topic" in " ".join(result.output.split())


def packed(kind: str) -> bytes:
    """A file of lines, in another form."""
    table, sink = pa.table({"value": ["a", "b"]}), pa.BufferOutputStream()
    match kind:
        case "Parquet":
            pq.write_table(table, sink)
        case "Arrow":
            feather.write_feather(table, sink)
        case "Arrow stream":
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        case "gzip" | "zstd" | "lz4" | "bzip2":
            codec = {"lz4": "lz4", "bzip2": "bz2"}.get(kind, kind)
            with pa.CompressedOutputStream(sink, codec) as stream:
                stream.write(b"a\nb\n")
        case "zip":
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.writestr("lines.txt", "a\nb\n")
            return packed.getvalue()
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", ["Parquet", "Arrow", "Arrow stream", "gzip", "zstd", "lz4", "bzip2", "zip"])
def test_a_file_that_is_not_lines_of_text_is_cut_only_on_request(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "input.dat"
    path.write_bytes(packed(kind))
    with pytest.raises(InputError, match=rf"input.dat is not lines of text, but {kind}; pass --format lines"):
        list(Input.of(str(path), None, Parts(), None).blocks())
    blocks = Input.of(str(path), "lines", Parts(), None).blocks()

    assert sum(block.size for block in blocks) >= path.stat().st_size


@pytest.mark.parametrize("content", ["a\nb\n".encode("utf-16"), b"\x7fELF\x02\x00\x00\n\x00"])
def test_a_file_with_zero_bytes_is_cut_only_on_request(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "input.dat"
    path.write_bytes(content)
    with pytest.raises(InputError, match="but binary data, or text in UTF-16"):
        list(Input.of(str(path), None, Parts(), None).blocks())

    assert list(Input.of(str(path), "lines", Parts(), None).blocks())


@pytest.mark.parametrize(
    ("interruption", "exit_code"), [(KeyboardInterrupt(), INTERRUPTED), (StoppedError(signal.SIGTERM), 143)]
)
def test_ctrl_c_before_the_command_begins_has_its_exit_code(
    interruption: KeyboardInterrupt, exit_code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> None:
        raise interruption

    monkeypatch.setattr("ottla.cli.send.command.printed_to_stderr", interrupt)
    monkeypatch.setattr(sys, "argv", ["ottla", "send", "orders", "--bootstrap-servers", "localhost:9"])
    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == exit_code
    assert capsys.readouterr().err.strip() == "interrupted"


@pytest.mark.parametrize(
    ("arguments", "exit_code", "shown"),
    [
        (["--version"], 0, "ottla, version"),
        (["sesame"], USAGE, "No such command 'sesame'"),
        (["send"], USAGE, "Missing argument 'TOPIC'"),
    ],
)
def test_the_entry_point_ends_with_the_exit_code_of_its_command(
    arguments: list[str],
    exit_code: int,
    shown: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["ottla", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()

    assert ended.value.code == exit_code
    assert shown in printed.out + printed.err


def test_help_fits_into_eighty_columns() -> None:
    for command in ([], ["send"], ["config", "translate"], ["doctor"], ["transactions"]):
        lines = CliRunner().invoke(ottla, [*command, "--help"], terminal_width=80).output.splitlines()

        assert max(map(len, lines)) <= 80


def test_every_command_has_its_whole_sentence_in_the_list() -> None:
    listed = CliRunner().invoke(ottla, ["--help"], terminal_width=80).output

    assert "..." not in listed.partition("Commands:")[2]


def test_a_state_file_is_readable_json(tmp_path: Path) -> None:
    state(tmp_path).save(tmp_path / "STATE")
    found: dict[str, Any] = json.loads((tmp_path / "STATE").read_text())

    assert found["position"] == {"input": 1, "record": 2}
