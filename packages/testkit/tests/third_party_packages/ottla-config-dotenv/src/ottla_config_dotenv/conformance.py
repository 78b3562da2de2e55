"""A file with values for this provider's conformance suite; `ottla plugins check` uses it, too.

It needs ottla-testkit, so nothing else may import it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from ottla.interfaces import ConfigProvider
from ottla_testkit.conformance import ConfigProviderConformance, plugin_context

from ottla_config_dotenv.plugin import FILE, ottla_config_provider


class DotenvConformance(ConfigProviderConformance):
    """All requirements for a configuration provider. Its references have no path."""

    keys = ("KAFKA_USER", "KAFKA_PASSWORD")

    @pytest.fixture
    def provider(self, tmp_path: Path) -> ConfigProvider:
        self._file = tmp_path / "kafka.env"
        self._write("ann", "the password of ann")
        return ottla_config_provider(config={FILE: str(self._file)}, context=plugin_context(client_id=None))

    def change(self, provider: ConfigProvider) -> None:
        self._write("bob", "the password of bob")

    def _write(self, user: str, password: str) -> None:
        self._file.write_text(f'# a comment\nKAFKA_USER={user}\nexport KAFKA_PASSWORD="{password}"\n')
