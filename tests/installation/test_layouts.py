"""ottla-accel and a core of two commits, both with the same version: a layout of another commit is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from installation.clean_environment import ROOT, Environment, build, done, listed
from long_forms import only_long

pytestmark = only_long("compiles ottla-accel")

OTHER = 1000
LAYOUT = "src/ottla/recordbatch/native_layout.py"
IMPORT = """
    try:
        import ottla_accel.sending
    except ImportError as error:
        print(error)
"""
PRODUCER = """
    import logging
    from ottla import InvalidPluginError, Producer

    logging.basicConfig(format="%(levelname)s %(message)s")
    Producer(bootstrap_servers="127.0.0.1:1").close()
    try:
        Producer(bootstrap_servers="127.0.0.1:1", record_encoder="native")
    except InvalidPluginError as error:
        print(error)
"""


def core_of_another_commit(folder: Path) -> Path:
    """Build the wheel of a core that has the same version, and another version of the layout."""
    source = folder / "core"
    shutil.copytree(ROOT / "packages" / "core", source, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    text = (source / LAYOUT).read_text(encoding="utf-8")
    changed, number = re.subn(r"(?m)^VERSION: Final = \d+$", f"VERSION: Final = {OTHER}", text)
    assert number == 1
    (source / LAYOUT).write_text(changed, encoding="utf-8")
    build(folder / "built", [source])
    [wheel] = (folder / "built").glob("*.whl")
    return wheel


def test_accel_refuses_the_core_of_a_commit_with_another_layout(environment: Environment, tmp_path: Path) -> None:
    environment.install("ottla[cli]", "ottla-accel")
    assert done(environment.program(IMPORT)) == ""

    environment.replace(core_of_another_commit(tmp_path))
    [sentence] = done(environment.program(IMPORT)).splitlines()
    made = environment.program(PRODUCER)

    assert "is compiled for layout " in sentence
    assert f" is {OTHER}; try: pip install --upgrade ottla-accel ottla==" in sentence
    assert sentence in done(made)
    [warning] = [line for line in made.stderr.splitlines() if "is left out: " in line]
    assert warning.startswith("WARNING ")
    assert sentence in warning
    assert sentence in (listed(environment)["encoder:native"] or "")
