"""The suite for configuration providers catches what is wrong, and says what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from suite_runs import Suite, assert_caught, assert_passed, each_of

pytest_plugins = ["pytester"]

KEYS = """path, keys = "here", ("user", "password")

    def change(self, provider):
        for key in self.keys:
            wrong_providers.VALUES["here"][key] += "-changed"
    """
SUITE = Suite(
    name="ConfigProviderConformance",
    subject="provider",
    module="wrong_providers",
    more=lambda _timeout: KEYS,
)
WRONG = [
    ("HasAnotherName", "strings", r"lacks `get` of ottla.interfaces.ConfigProvider"),
    ("ReturnsNothingForNothing", "missing_path", "get returned a NoneType, not a mapping"),
    ("ReturnsPairs", "strings", "get returned a list, not a mapping"),
    ("ReturnsOneValue", "strings", "get returned a str, not a mapping"),
    ("ReturnsBytes", "strings", "get returned a bytes for '(user|password)', not a string"),
    ("ReturnsNoneForMissing", "missing_key", "get returned a NoneType for 'ottla-conformance-no-such-key', not a str"),
    ("EmptyForMissing", "missing_key", "a key that does not exist has a value"),
    ("ReturnsAllOfThePath", "only_requested", "gives values of keys that were not asked for"),
    ("IgnoresThePath", "missing_path", "the path 'ottla-conformance/no/such/path' does not exist, and has values"),
    ("KeysInUpperCase", "strings", "user at 'here' has no string for a value"),
    ("NeedsAPath", "unusual_name", r"get\('', \('key',\)\) raised KeyError; raise a ConfigError that says why"),
    ("WantsAscii", "unusual_name", "raised UnicodeEncodeError; raise a ConfigError"),
    ("WantsAList", "strings", r"get\('here', .* raised AttributeError; it gets a path and a set of keys"),
    ("OneKeyAtATime", "strings", r"get\('here', .* raised ValueError; it gets a path and a set of keys"),
    ("RaisesForMissing", "missing_key", r"no-such-key'\}\) raised KeyError; .*leaves out keys that do not exist"),
    ("RefusesTheSecondTime", "alone", "ConfigError at .*the plugin raised it"),
    ("AsksAServerForEver", "strings", "get did not return within 1 s; it needs a time-out of its own"),
    ("TornByThreads", "many_threads", "RuntimeError at .*the plugin raised it"),
    ("SharesItsAnswer", "alone", "later calls changed the mapping that an earlier one has returned"),
    ("ShowsValuesInItsErrors", "never_shown", r"values\[\d\] is seen in a ConfigError that it raised"),
    ("PrintsValues", "never_shown", r"values\[\d\] is seen in what is printed"),
    ("LogsValues", "never_shown", r"values\[\d\] is seen in the log"),
    ("ShowsValuesInItsRepr", "never_shown", r"values\[\d\] is seen in the repr of the provider"),
    ("LocksItselfOut", "after_a_refusal", "get did not return within 1 s"),
    ("RefusesAfterAnError", "after_a_refusal", "after other paths were requested, get of an existing one raised Conf"),
    ("KeepsItsValuesForEver", "changed", "user was changed, and get returns its old value"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with values that a provider reads."""
    file = tmp_path / "a.env"
    file.write_text("user=ann\npassword=hunter-2")
    return file


def keys_of(file: Path) -> str:
    """The lines of a suite for values in this file."""
    return f'path, keys = {str(file)!r}, ("user", "password")'


@each_of(WRONG)
def test_a_broken_promise_of_a_provider_is_named(pytester: pytest.Pytester, plugin: str, test: str, said: str) -> None:
    SUITE.assert_catches(pytester, plugin + "()", test, said)


def test_a_provider_that_reads_any_file_for_other_users_is_named(pytester: pytest.Pytester, file: Path) -> None:
    arguments = ("-k", "other_users")
    said = (
        r"get gave values of '.*a.env' where the settings may be another user's, .*: check each file .* check_file\(\)"
    )

    assert_caught(SUITE.run(pytester, "ReadsAnyFile()", *arguments, more=keys_of(file)), said)
    assert_passed(SUITE.run(pytester, "ReadsListedFiles()", *arguments, more=keys_of(file)))


def test_files_that_the_environment_lists_are_checked_too(
    pytester: pytest.Pytester, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_ALLOWED_FILES", str(file))

    assert_caught(SUITE.run(pytester, "ReadsAnyFile()", "-k", "other_users", more=keys_of(file)), "get gave values of")


def test_a_provider_may_read_files_that_the_program_lists(
    pytester: pytest.Pytester, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.config.allow_lists._files", {str(file)})

    assert_passed(SUITE.run(pytester, "ReadsAnyFile()", "-k", "other_users", more=keys_of(file)))


def test_a_provider_may_read_files_that_have_none_of_its_values(pytester: pytest.Pytester) -> None:
    assert_passed(SUITE.run(pytester, "ReadsOtherFiles()", "-k", "other_users"))


def test_a_provider_may_declare_that_users_name_no_file(pytester: pytest.Pytester, file: Path) -> None:
    more = f"{keys_of(file)}; reads_unlisted_files = True"

    SUITE.run(pytester, "ReadsAnyFile()", "-k", "other_users", more=more).assert_outcomes(skipped=1)


def test_a_provider_that_keeps_all_promises_passes(pytester: pytest.Pytester) -> None:
    SUITE.assert_passes(pytester, "Right()")


def test_without_keys_the_untested_promises_are_named(pytester: pytest.Pytester) -> None:
    result = SUITE.run(pytester, "Right()", "-rs", more="")

    assert "`keys` is empty: nothing is known to be there" in result.stdout.str()
