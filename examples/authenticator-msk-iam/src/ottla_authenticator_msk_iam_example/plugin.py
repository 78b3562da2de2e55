"""The plugin: its keys, and the mechanism."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.hookspecs import hookimpl
from ottla.interfaces import Authenticator, ConfigKey, Mechanism, PluginConfig, PluginContext
from ottla_authenticator_msk_iam_example.credentials import (
    ACCESS_KEY,
    PROVIDER,
    SECRET_KEY,
    SESSION_TOKEN,
    credentials_source,
)
from ottla_authenticator_msk_iam_example.exchange import MskIamExchange
from ottla_authenticator_msk_iam_example.signature import Credentials

ottla_conformance = "ottla_authenticator_msk_iam_example.conformance:MskIamConformance"

NAME: Final = "AWS_MSK_IAM"
REGION: Final = "aws.msk.region"
LOGINS: Final = "aws-msk-iam-logins-total"

_IN_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$")


class MskIamMechanism:
    """Sign a request for each connection. `blocking`, because a function that fetches credentials may wait."""

    name = NAME
    blocking = True

    def __init__(
        self,
        credentials: Callable[[], Credentials],
        *,
        region: str | None,
        context: PluginContext,
        clock: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._credentials = credentials
        self._region = region
        self._clock = clock
        self._logins = context.metrics.add_counter(LOGINS, unit="logins", meaning="Logins that were begun.")

    def authenticator(self, host: str, port: int) -> Authenticator:
        """Return a login at this broker: in the configured region, the one in its name, or that of this machine."""
        self._logins.add()
        named = _IN_HOST.search(host.lower())
        region = self._region or (named[1] if named else os.environ.get("AWS_REGION"))
        return MskIamExchange(host, region=region, credentials=self._credentials, clock=self._clock)


@hookimpl
def ottla_config_keys() -> Sequence[ConfigKey]:
    """Keys for the credentials or their source, and for the region."""
    return [
        ConfigKey(name=PROVIDER, type=_callable, default=None, meaning="a function that returns the keys, as a tuple"),
        ConfigKey(name=ACCESS_KEY, type=_text, default=None, meaning="the access key, as a string"),
        ConfigKey(name=SECRET_KEY, type=_text, default=None, meaning="the secret key, as a string", secret=True),
        ConfigKey(name=SESSION_TOKEN, type=_text, default=None, meaning="the session token, if any", secret=True),
        ConfigKey(
            name=REGION, type=_text, default=None, meaning="the region; as the brokers' names say, else AWS_REGION"
        ),
    ]


@hookimpl
def ottla_authenticator(config: PluginConfig, context: PluginContext) -> Mechanism:
    """The mechanism named `AWS_MSK_IAM`."""
    return MskIamMechanism(credentials_source(config), region=config[REGION], context=context)


def _callable(raw: Any) -> Callable[[], Any]:
    if not callable(raw):
        raise ValueError("it must be a function without arguments")
    function: Callable[[], Any] = raw
    return function


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("it must be a string")
    return raw.strip()
