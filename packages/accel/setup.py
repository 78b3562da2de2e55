"""The extension modules; everything else is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

MODULES = ("columns", "crc32c", "json_rows", "layout", "murmur2", "sending", "tables")

setup(
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
        },
    ),
)
