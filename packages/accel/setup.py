"""The extension modules, and the README with links that work elsewhere; everything else is in pyproject.toml."""

import re
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = (
    "avro_rows",
    "avro_values",
    "blocks",
    "columns",
    "crc32c",
    "json_rows",
    "layout",
    "murmur2",
    "row_buffers",
    "sending",
    "tables",
    "waiting",
)

REPOSITORY = "https://github.com/ottla/ottla/blob/main"
README = Path(__file__).with_name("README.md").read_text(encoding="utf-8")

setup(
    long_description=re.sub(r"\]\(\.\./([^)]+)\)", rf"]({REPOSITORY}/packages/\1)", README),
    long_description_content_type="text/markdown",
    options={"build_ext": {"parallel": True}},  # a compiler for each processor
    ext_modules=cythonize(
        [
            Extension(f"ottla_accel.{name}", [f"src/ottla_accel/{name}.pyx"], extra_compile_args=["-O3"])
            for name in MODULES
        ],
        compiler_directives={
            "language_level": 3,
            "boundscheck": False,
            "wraparound": False,
            "cdivision": True,
            "initializedcheck": False,
            "binding": False,
            "freethreading_compatible": True,
        },
    ),
)
