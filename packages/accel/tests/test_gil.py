"""A Python without the GIL stays without it: no module of this package enables it when it is imported."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

PROGRAM = """
import importlib, pkgutil, sys
import ottla_accel
names = [module.name for module in pkgutil.iter_modules(ottla_accel.__path__, "ottla_accel.")]
for name in names:
    importlib.import_module(name)
print(len(names) > 10, getattr(sys, "_is_gil_enabled", lambda: True)())
"""


def test_the_gil_is_as_it_was_before_the_compiled_code_was_imported() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    # -W error: the interpreter warns where it enables the GIL for a module.
    command = [sys.executable, "-W", "error", "-c", PROGRAM]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert (done.stdout.split(), done.stderr) == (["True", str(not free_threaded)], "")
