from pathlib import Path

from ottla_testkit.java.jvm import jvm_command

JARS = Path("/jars")


def test_a_main_class_runs_with_the_jars_of_the_version(tmp_path: Path) -> None:
    command = jvm_command("/bin/java", version="4.3.0", jars=JARS, heap="100m", folder=tmp_path)

    assert command[:2] == ["/bin/java", "-Xmx100m"]
    assert command[-2:] == ["-cp", "/jars/*"]
    assert list(tmp_path.iterdir()) == []


def test_files_unpacked_at_run_time_are_in_its_folder(tmp_path: Path) -> None:
    command = jvm_command("/bin/java", version="4.3.0", jars=JARS, heap="100m", folder=tmp_path)

    assert f"-Djava.io.tmpdir={tmp_path}" in command


def test_a_version_with_log4j_is_configured_to_print_its_log(tmp_path: Path) -> None:
    command = jvm_command("/bin/java", version="0.10.2.2", jars=JARS, heap="100m", folder=tmp_path)

    (written,) = tmp_path.iterdir()
    assert f"-Dlog4j.configuration=file://{written}" in command
    assert "ConsoleAppender" in written.read_text()


def test_a_broker_under_load_uses_the_jit_and_gc_of_production(tmp_path: Path) -> None:
    def command(*, sustained: bool) -> list[str]:
        return jvm_command("/bin/java", version="4.3.0", jars=JARS, heap="1g", folder=tmp_path, sustained=sustained)

    assert "-XX:+UseG1GC" in command(sustained=True)
    assert not [option for option in command(sustained=True) if "Tiered" in option]
    assert "-XX:TieredStopAtLevel=1" in command(sustained=False)
