import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla_testkit.errors import ClusterError
from ottla_testkit.processes.orphan_guard import OrphanGuard
from ottla_testkit.processes.process import Process

HANG_GUARD = 20.0
OWNER = """
import sys, time
from pathlib import Path
from ottla_testkit.processes.process import Process

fifo = sys.argv[1]
command = ["sh", "-c", f"exec > {fifo}; echo begun; exec sleep 600"]
Process("sleep", command=command, log_file=Path(f"{fifo}.log")).start()
print("started", flush=True)
time.sleep(600)
"""


def read(pipe: int) -> bytes:
    """The next data; nothing if no process is left that could write."""
    assert select.select([pipe], [], [], HANG_GUARD)[0], "no process wrote or ended"
    return os.read(pipe, 100)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_process_never_outlives_its_owner(tmp_path: Path, number: signal.Signals) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with subprocess.Popen([sys.executable, "-c", OWNER, str(fifo)], stdout=subprocess.PIPE) as owner:
        pipe = os.open(fifo, os.O_RDONLY)
        try:
            assert read(pipe) == b"begun\n"
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"started\n"  # and guarded, which the process does not know of
            owner.send_signal(number)
            assert owner.wait(HANG_GUARD) == -number
            assert read(pipe) == b""
        finally:
            owner.kill()
            os.close(pipe)


def test_a_released_process_survives_its_owner() -> None:
    with subprocess.Popen(["sleep", "600"]) as process:
        OrphanGuard(process.pid).release()

        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("end", [Process.kill, Process.stop])
def test_a_process_may_be_stopped_and_started_again(tmp_path: Path, end: Callable[[Process], None]) -> None:
    process = Process("sleep", command=["sleep", "600"], log_file=tmp_path / "log")
    for _ in range(2):
        process.start()
        with pytest.raises(ClusterError, match="sleep is already running"):
            process.start()
        assert process.running
        end(process)
        assert not process.running
