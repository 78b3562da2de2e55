from pathlib import Path

from ottla_testkit.jvm import jvm_command

JARS = Path("/jars")


def test_a_main_class_runs_among_the_versions_jars(tmp_path: Path) -> None:
    command = jvm_command("/bin/java", version="4.3.0", jars=JARS, heap="100m", folder=tmp_path)

    assert command[:2] == ["/bin/java", "-Xmx100m"]
    assert command[-2:] == ["-cp", "/jars/*"]
    assert list(tmp_path.iterdir()) == []


def test_a_version_with_log4j_is_told_to_print_its_log(tmp_path: Path) -> None:
    command = jvm_command("/bin/java", version="0.10.2.2", jars=JARS, heap="100m", folder=tmp_path)

    (written,) = tmp_path.iterdir()
    assert f"-Dlog4j.configuration=file://{written}" in command
    assert "ConsoleAppender" in written.read_text()
