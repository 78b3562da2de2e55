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

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

import pytest

from ottla.errors import OttlaError
from ottla.interfaces import ConfigProvider
from ottla_testkit.conformance.harness.bounded_suite import BoundedSuite
from ottla_testkit.conformance.harness.checked_layer import check, fail
from ottla_testkit.conformance.harness.concurrent_calls import together, within

_NOWHERE: Final = "ottla-conformance-no-such-key"
_ODD: Final = ("", "..", "../..", "a/b", "\0", "\ud800", "é" * 300, "%00", "$", "{}")
_THREADS: Final = 8


class ConfigProviderConformance(BoundedSuite):
    """Subclass it as `Test...`, and override the fixture `provider`; it has values for `keys` at `path`."""

    subject: ClassVar[str] = "provider"
    contract: ClassVar[type] = ConfigProvider
    settings: ClassVar[Mapping[str, Any]] = {}
    path: ClassVar[str] = ""
    keys: ClassVar[Collection[str]] = ()
    timeout: ClassVar[float] = 10.0
    """Seconds after which a call fails as stuck."""

    @pytest.fixture
    def provider(self) -> ConfigProvider:
        """The provider under test."""
        raise NotImplementedError("override the fixture `provider`")

    def test_it_returns_strings_for_existing_keys(self, provider: ConfigProvider) -> None:
        if not self.keys:
            pytest.skip("`keys` is empty: nothing is known to be there")
        given = self._get(provider, self.path, self.keys)

        for key in self.keys:
            check(isinstance(given.get(key), str), f"{key} at {self.path!r} has no string for a value")

    def test_a_missing_key_has_no_value(self, provider: ConfigProvider) -> None:
        """An empty value would be sent as a password."""
        given = self._get_known(provider, (*self.keys, _NOWHERE))

        check(_NOWHERE not in given, "a key that does not exist has a value")

    def test_only_requested_keys_are_returned(self, provider: ConfigProvider) -> None:
        given = self._get_known(provider, self.keys)

        check(set(given) <= set(self.keys), "it gives values of keys that were not asked for")

    @pytest.mark.parametrize("odd", _ODD, ids=ascii)
    def test_an_odd_name_is_not_an_error(self, provider: ConfigProvider, odd: str) -> None:
        for path, keys in ((self.path, (odd,)), (odd, ("key",)), (f"{self.path}/{odd}", ("key",))):
            try:
                self._get(provider, path, keys)
            except OttlaError:
                continue
            except Exception as error:
                fail(f"get({path!r}, {keys!r}) raised {type(error).__name__}; raise a ConfigError that says why")

    def test_many_threads_may_call_it_at_once(self, provider: ConfigProvider) -> None:
        first = self._get_known(provider, self.keys)

        def ask() -> None:
            given = provider.get(self.path, frozenset(self.keys))
            check(dict(given) == dict(first), "threads that ask at once get different values")

        together(self.timeout, [ask] * _THREADS, call="get")

    def _get_known(self, provider: ConfigProvider, keys: Collection[str]) -> Mapping[str, str]:
        """Return the provider's values at `path`. Without `keys`, the provider may refuse that path."""
        try:
            return self._get(provider, self.path, keys)
        except OttlaError:
            if self.keys:
                raise
            pytest.skip("`keys` is empty, and the path is refused: nothing is known to be there")

    def _get(self, provider: ConfigProvider, path: str, keys: Collection[str]) -> Mapping[str, str]:
        given = within(
            self.timeout, "get", lambda: provider.get(path, frozenset(keys)), remedy="it needs a time-out of its own"
        )
        check(isinstance(given, Mapping), f"get returned a {type(given).__name__}, not a mapping")
        return given
