"""`ottla plugins check` for every plugin of ours and of the examples, as a user has them: by the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from long_forms import LONG

OTTLA = [sys.executable, "-m", "ottla"]
LISTED_WITHOUT_THE_TESTKIT = """
import contextlib, sys
from ottla.cli import main

sys.argv = ["ottla", "plugins"]
with contextlib.suppress(SystemExit):
    main()
assert "ottla_transport_ssl.plugin" in sys.modules
foreign = [name for name in sys.modules if name.partition(".")[0] in ("ottla_testkit", "pytest", "_pytest")]
assert foreign == [], foreign
"""


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def installed() -> list[tuple[str, str]]:
    """Kind and name of everything that can be used."""
    entries = json.loads(run(*OTTLA, "plugins", "--json"))["plugins"]
    return [(entry["kind"], entry["name"]) for entry in entries if entry["problem"] is None]


@pytest.mark.thorough("test_cli_plugins.py checks plugins by the command, and the packages' tests run each suite")
def test_installed_plugins_pass_their_suites_without_settings() -> None:
    """The short form checks one of each kind; the packages' own tests run the suites of all of them."""
    everything = installed()
    plugins = everything if LONG else list(dict(reversed(everything)).items())
    reported = run(*OTTLA, "plugins", "check", "--verbose", *(f"{kind}:{name}" for kind, name in plugins))

    passed = Counter(re.findall(r"(test_\w+)\.py::TestInstalled::\S+ PASSED", reported))
    assert len(everything) >= 19
    assert {kind for kind, _name in plugins} == {kind for kind, _name in everything}
    assert set(passed) == {
        f"test_{number}_{kind}_{name.lower().replace('-', '_')}" for number, (kind, name) in enumerate(plugins)
    }
    # What a login or a handshake needs is there: nothing is passed over.
    logins = [name for kind, name in plugins if kind == "authenticator"]
    assert len(re.findall(r"::test_an_honest_broker_accepts_the_login PASSED", reported)) == len(logins)
    skipped = [line for line in reported.splitlines() if "_transport_" in line and "SKIPPED" in line]
    optional = [line for line in skipped if re.search("close|refusal_of_the_peer|secrets_are_never_shown", line)]
    rest = [line for line in skipped if line not in optional]
    assert all("_transport_unix." in line for line in rest)  # a Unix socket is not behind another transport


def test_a_producer_never_imports_the_dependencies_of_the_check() -> None:
    run(sys.executable, "-c", LISTED_WITHOUT_THE_TESTKIT)
