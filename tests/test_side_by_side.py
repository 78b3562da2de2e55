"""The tool that runs the fast tests at the same time as those with brokers."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

TOOL = Path(__file__).parent.parent / "tools" / "side_by_side.py"
WITHIN = 60.0


def start(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str | Path) -> tuple[int, str]:
    with start(*arguments) as tool:
        out, err = tool.communicate(timeout=WITHIN)
    assert err == ""
    return tool.returncode, out


def python(program: str) -> Sequence[str]:
    return (sys.executable, "-c", program)


def waits_for(path: Path) -> str:
    """A program that ends once a file is there."""
    return f"import pathlib, time\nwhile not pathlib.Path({str(path)!r}).exists(): time.sleep(0.01)"


def appears(path: Path) -> None:
    deadline = time.monotonic() + WITHIN
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_groups_run_at_the_same_time(tmp_path: Path) -> None:
    """Each waits for what the other one does."""
    here, there = tmp_path / "here", tmp_path / "there"
    first = f"open({str(here)!r}, 'w').close()\n" + waits_for(there)
    second = waits_for(here) + f"\nopen({str(there)!r}, 'w').close()"

    code, _ = run(*python(first), "--beside", *python(second))

    assert code == 0


def test_the_output_of_a_group_is_printed_when_it_ends(tmp_path: Path) -> None:
    done = tmp_path / "done"
    first = f"print('one', flush=True)\n{waits_for(done)}\nprint('two')"
    second = f"print('three')\nopen({str(done)!r}, 'w').close()"

    code, out = run(*python(first), "--beside", *python(second))

    assert code == 0
    printed = [line for line in out.splitlines() if line in {"one", "two", "three"}]
    assert printed in (["one", "two", "three"], ["three", "one", "two"])


def test_errors_are_printed_with_the_output() -> None:
    _, out = run(*python("import sys\nprint('to stdout', flush=True)\nprint('to stderr', file=sys.stderr)"))

    assert out.splitlines()[-3:-1] == ["to stdout", "to stderr"]


@pytest.mark.parametrize("failing", [0, 1])
def test_one_failure_fails_the_whole_run_and_stops_nothing(tmp_path: Path, failing: int) -> None:
    done = tmp_path / "done"
    groups = [python(f"open({str(done)!r}, 'w').close()"), python("raise SystemExit(3)")]
    first, second = groups[failing], groups[1 - failing]

    code, out = run(*first, "--beside", *second)

    assert code == 3
    assert done.exists()
    assert "exit code 3 after" in out


def test_a_command_starts_when_the_one_before_it_has_ended(tmp_path: Path) -> None:
    done = tmp_path / "done"
    write, read = f"open({str(done)!r}, 'w').close()", f"open({str(done)!r}).close()"

    assert run(*python(write), "--then", *python(read))[0] == 0


def test_a_failure_does_not_hide_what_the_next_command_finds(tmp_path: Path) -> None:
    done = tmp_path / "done"

    code, _ = run(*python("raise SystemExit(3)"), "--then", *python(f"open({str(done)!r}, 'w').close()"))

    assert code == 3
    assert done.exists()


def test_a_missing_command_is_a_failure() -> None:
    code, out = run("no-such-command", "--beside", *python("print('the other one')"))

    assert code == 127
    assert "No such file or directory: 'no-such-command'" in out
    assert "the other one" in out


@pytest.mark.parametrize("ignored", [False, True], ids=["", "SIGINT ignored at the start"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_an_interrupt_ends_both_groups_with_all_their_processes(
    tmp_path: Path, number: signal.Signals, ignored: bool
) -> None:
    """One group clears up when it is interrupted; the other ignores that, as does the process that it started.

    A background command of a shell without job control starts with SIGINT ignored.
    """
    started, cleared = tmp_path / "started", tmp_path / "cleared"
    orderly = (
        f"import time\ntry:\n    open({str(tmp_path / 'orderly')!r}, 'w').close()\n    time.sleep(600)\n"
        f"except KeyboardInterrupt:\n    open({str(cleared)!r}, 'w').close()"
    )
    child = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"open({str(started)!r}, 'w').close()\ntime.sleep(600)"
    )
    stubborn = (
        "import signal, subprocess, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"subprocess.run([sys.executable, '-c', {child!r}])"
    )
    arguments = [*python(orderly), "--beside", *python(stubborn)]
    # The gate gives commands five seconds to clear up.
    impatient = (
        f"import signal\nif {ignored}:\n    signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        f"import side_by_side, sys\nside_by_side.IN_ORDER_WITHIN = 1.0\nsys.exit(side_by_side.main({arguments!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", impatient], cwd=TOOL.parent, stdout=subprocess.DEVNULL) as tool:
        for path in (started, tmp_path / "orderly"):
            appears(path)
        family = psutil.Process(tool.pid).children(recursive=True)
        tool.send_signal(number)
        code = tool.wait(WITHIN)

    assert code == 130
    assert len(family) >= 3
    assert cleared.exists()
    gone, alive = psutil.wait_procs(family, timeout=WITHIN)
    for each in alive:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    assert len(gone) == len(family)


def test_an_interrupt_prints_at_once_what_groups_have_written(tmp_path: Path) -> None:
    """Hosted runners kill all processes soon after the interrupt."""
    started = tmp_path / "started"
    stubborn = (
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('before', flush=True)\n"
        f"open({str(started)!r}, 'w').close()\ntime.sleep(600)"
    )
    with start(*python(stubborn), "--beside", *python("print('the other one')")) as tool:
        appears(started)
        assert tool.stdout is not None
        shown = [tool.stdout.readline() for _ in range(3)]  # of the group that ends
        family = psutil.Process(tool.pid).children(recursive=True)
        tool.send_signal(signal.SIGINT)
        while shown[-1] != "before\n":
            shown.append(tool.stdout.readline())
            assert shown[-1], "the output ended"
        still_running = [each for each in family if each.is_running()]
        rest = tool.stdout.read()

    assert len(still_running) == 1
    assert tool.returncode == 130
    assert "before" not in rest
    assert "exit code" in rest
