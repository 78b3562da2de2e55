"""All requirements for a `ConfigProvider`.

```python
class TestMine(ConfigProviderConformance):
    path = "kafka/producer"
    keys = ("password",)

    @pytest.fixture
    def provider(self):
        return MyProvider()
```
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from ottla.config.allow_lists import FILES, NotAllowedError, check_file, options_of_others
from ottla.errors import OttlaError, with_article
from ottla.interfaces import ConfigProvider
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import together, within
from ottla_testkit.conformance.harness.opened_files import opened_files
from ottla_testkit.conformance.harness.secret_leaks import Secrets
from ottla_testkit.conformance.harness.thread_leaks import StartedThreads

_MISSING_KEY: Final = "ottla-conformance-no-such-key"
_UNUSUAL: Final = ("", "..", "../..", "a/b", "\0", "\ud800", "é" * 300, "%00", "$", "{}")
_NO_PATH: Final = "ottla-conformance/no/such/path"
_SHORTEST_SECRET: Final = 8
"""Shorter values may occur in a text by chance."""
_THREADS: Final = 8


class ConfigProviderConformance(BoundedSuite):
    """Tests of a config provider: derive a class `Test...` from it.

    Override the fixture `provider`; it has values for `keys` at `path`.
    """

    subject: ClassVar[str] = "provider"
    contract: ClassVar[type] = ConfigProvider
    settings: ClassVar[Mapping[str, Any]] = {}
    path: ClassVar[str] = ""
    """A path at which the provider has values."""
    keys: ClassVar[Collection[str]] = ()
    """Keys that have values at `path`."""
    reads_unlisted_files: ClassVar[bool] = False
    """Whether values may come from a file that is in no list of allowed files: if users cannot name the file."""

    @pytest.fixture
    def provider(self) -> ConfigProvider:
        """The provider under test; a new one for each test."""
        raise NotImplementedError("override the fixture `provider`")

    def change(self, provider: ConfigProvider) -> None:
        """Give each of `keys` another value, where the provider reads it. If it keeps values, let their time pass."""
        pytest.skip("give a method `change`, which changes the values of `keys`, to see whether they are read again")

    def test_it_returns_strings_for_existing_keys(self, provider: ConfigProvider) -> None:
        self._need_keys()
        given = self._get(provider, self.path, self.keys)

        for key in self.keys:
            check(isinstance(given.get(key), str), f"{key} at {self.path!r} has no string for a value")

    def test_a_key_has_one_value_alone_or_with_others_and_each_time(self, provider: ConfigProvider) -> None:
        self._need_keys()
        given = self._get(provider, self.path, self.keys)
        before = dict(given)

        for key in (*self.keys, *self.keys):
            alone = self._get(provider, self.path, (key,))
            check(alone.get(key) == before.get(key), f"get of {key} alone, or once more, gives another value")
        check(dict(given) == before, "later calls changed the mapping that an earlier one has returned")

    def test_a_missing_path_has_no_values(self, provider: ConfigProvider) -> None:
        """A misspelt path would be noticed only when a login fails."""
        self._need_keys()
        given: Mapping[str, str] = {}
        with contextlib.suppress(OttlaError):
            given = self._get(provider, _NO_PATH, self.keys)

        check(not given, f"the path {_NO_PATH!r} does not exist, and has values; return none, or raise a ConfigError")

    def test_a_changed_value_is_read_again(self, provider: ConfigProvider) -> None:
        """Passwords are requested at each login, so that they can be rotated."""
        self._need_keys()
        before = dict(self._get(provider, self.path, self.keys))
        self.change(provider)
        after = self._get(provider, self.path, self.keys)

        for key in self.keys:
            check(after.get(key) != before.get(key), f"{key} was changed, and get returns its old value")

    def test_a_missing_key_has_no_value(self, provider: ConfigProvider) -> None:
        """An empty value would be sent as a password."""
        given = self._get_known(provider, (*self.keys, _MISSING_KEY))

        check(_MISSING_KEY not in given, "a key that does not exist has a value")

    def test_only_requested_keys_are_returned(self, provider: ConfigProvider) -> None:
        for keys in (self.keys, *((key,) for key in self.keys)):
            given = self._get_known(provider, keys)
            check(set(given) <= set(keys), "it gives values of keys that were not asked for")

    @pytest.mark.parametrize("unusual", _UNUSUAL, ids=ascii)
    def test_an_unusual_name_is_not_an_error(self, provider: ConfigProvider, unusual: str) -> None:
        for path, keys in ((self.path, (unusual,)), (unusual, ("key",)), (f"{self.path}/{unusual}", ("key",))):
            try:
                self._get_as_is(provider, path, keys)
            except OttlaError:
                continue
            except Exception as error:
                fail(f"get({path!r}, {keys!r}) raised {type(error).__name__}; raise a ConfigError that says why")

    def test_after_a_refusal_existing_keys_have_their_values(self, provider: ConfigProvider) -> None:
        before = dict(self._get_known(provider, self.keys))

        for path in (_NO_PATH, *_UNUSUAL):
            with contextlib.suppress(Exception):  # another test is about what it raises
                self._get_as_is(provider, path, self.keys)
        try:
            after = self._get(provider, self.path, self.keys)
        except OttlaError as error:
            fail(f"after other paths were requested, get of an existing one raised {type(error).__name__}", error)
        check(dict(after) == before, "after other paths were requested, existing keys have other values")

    def test_values_are_never_shown(
        self, provider: ConfigProvider, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
    ) -> None:
        caplog.set_level(logging.DEBUG)
        given = self._get_known(provider, self.keys)
        values = Secrets([value for value in given.values() if len(value) >= _SHORTEST_SECRET], name="values")

        for path, keys in ((self.path, (*self.keys, _MISSING_KEY)), (self.path, _UNUSUAL), (_NO_PATH, self.keys)):
            try:
                self._get(provider, path, keys)
            except OttlaError as error:
                values.check_error(error)
        values.check_silent("the provider", provider)
        values.check_text("the log", caplog.text)
        values.check_text("what is printed", "".join(capsys.readouterr()))

    def test_files_that_other_users_name_are_checked(
        self, provider: ConfigProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._need_keys()
        if self.reads_unlisted_files:
            pytest.skip("reads_unlisted_files is True")
        monkeypatch.delenv(FILES, raising=False)

        def get() -> tuple[Mapping[str, str], list[str]]:
            with options_of_others(), opened_files() as opened:
                return provider.get(self.path, frozenset(self.keys)), opened

        try:
            given, opened = within(self.timeout, "get", get, remedy="it needs a time-out of its own")
        except OttlaError:
            return  # it refuses to read the file
        for path in opened:
            check(
                not (_is_unlisted(path) and _has_one_of(path, given.values())),
                f"get gave values of {path!r} where the settings may be another user's, and no list of allowed files "
                "has it: check each file that a setting or a path names with check_file() of ottla.config.allow_lists; "
                "reads_unlisted_files = True allows it",
            )

    def test_many_threads_may_call_it_at_once(self, provider: ConfigProvider) -> None:
        first = self._get_known(provider, self.keys)

        def ask() -> None:
            given = provider.get(self.path, frozenset(self.keys))
            check(dict(given) == dict(first), "threads that ask at once get different values")

        together(self.timeout, [ask] * _THREADS, call="get")

    def test_close_ends_background_work(self, started_threads: StartedThreads, provider: ConfigProvider) -> None:
        with self._closed_after(provider, started_threads), contextlib.suppress(OttlaError):
            self._get(provider, self.path, self.keys)

    # Shared by the tests

    def _need_keys(self) -> None:
        if not self.keys:
            pytest.skip("`keys` is empty: nothing is known to be there")

    def _get_known(self, provider: ConfigProvider, keys: Collection[str]) -> Mapping[str, str]:
        """Return the provider's values at `path`. Without `keys`, the provider may refuse that path."""
        try:
            return self._get(provider, self.path, keys)
        except OttlaError:
            if self.keys:
                raise
            pytest.skip("`keys` is empty, and the path is refused: nothing is known to be there")

    def _get(self, provider: ConfigProvider, path: str, keys: Collection[str]) -> Mapping[str, str]:
        try:
            return self._get_as_is(provider, path, keys)
        except OttlaError:
            raise
        except Exception as error:
            fail(
                f"get({path!r}, {{{', '.join(map(repr, keys))}}}) raised {type(error).__name__}; it gets a path and a "
                "set of keys, leaves out keys that do not exist, and raises a ConfigError for what cannot be read",
                error,
            )

    def _get_as_is(self, provider: ConfigProvider, path: str, keys: Collection[str]) -> Mapping[str, str]:
        given = within(
            self.timeout, "get", lambda: provider.get(path, frozenset(keys)), remedy="it needs a time-out of its own"
        )
        check(isinstance(given, Mapping), f"get returned {with_article(type(given).__name__)}, not a mapping")
        for key, value in given.items():  # no message has a value, which may be a secret
            check(isinstance(key, str), f"get returned {with_article(type(key).__name__)} as a key, not a string")
            check(
                isinstance(value, str), f"get returned {with_article(type(value).__name__)} for {key!r}, not a string"
            )
        return given


def _is_unlisted(path: str) -> bool:
    """Return whether options of other users may not name this file."""
    try:
        with options_of_others():
            check_file(path)
    except NotAllowedError:
        return True
    return False


def _has_one_of(path: str, values: Collection[str]) -> bool:
    """Return whether a file has one of these values: others, such as modules, are read without being named."""
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError):
        return False
    return any(value and value.encode("utf-8", "replace") in content for value in values)
