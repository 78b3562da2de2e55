"""The source of AWS credentials: a user's function, the configuration, or the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.config.allow_lists import NotAllowedError, check_login
from ottla.errors import AuthenticationError, ConfigError, OttlaError
from ottla.interfaces import PluginConfig
from ottla_authenticator_msk_iam_example.signature import Credentials

PROVIDER: Final = "aws.msk.credentials.provider"
ACCESS_KEY: Final = "aws.msk.access.key.id"
SECRET_KEY: Final = "aws.msk.secret.access.key"
SESSION_TOKEN: Final = "aws.msk.session.token"


def credentials_source(config: PluginConfig, environment: Mapping[str, str] = os.environ) -> Callable[[], Credentials]:
    """Return a function that returns the current credentials. Raises ConfigError for no source, or two."""
    provider = config[PROVIDER]
    access_key, secret_key = config[ACCESS_KEY], config[SECRET_KEY]
    if provider is not None and (access_key or secret_key):
        raise ConfigError([f"{PROVIDER} and {ACCESS_KEY} are both given; leave one out"])
    if provider is not None:
        return lambda: _provided(provider)
    token = config[SESSION_TOKEN]
    if access_key is None and secret_key is None:
        try:
            check_login("aws", what="the keys of AWS in the environment")
        except NotAllowedError as error:
            raise ConfigError([f"sasl.mechanism=AWS_MSK_IAM: {error}"]) from None
        access_key, secret_key = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
        token = environment.get("AWS_SESSION_TOKEN")
    if not access_key or not secret_key:
        raise ConfigError(
            [
                f"sasl.mechanism=AWS_MSK_IAM needs {ACCESS_KEY} and {SECRET_KEY}, {PROVIDER}, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY in the environment"
            ]
        )
    found = Credentials(access_key=access_key, secret_key=secret_key, session_token=token or None)
    return lambda: found


def _provided(provider: Callable[[], Any]) -> Credentials:
    """Call the user's function. Its message may hold secrets: errors report only the exception's type."""
    try:
        given = provider()
    except OttlaError:
        raise
    except Exception as error:
        raise AuthenticationError(f"{PROVIDER} raised {type(error).__name__}; it is attached as the cause") from error
    parts = given if isinstance(given, tuple) else ()
    if len(parts) not in (2, 3) or not all(isinstance(part, str) and part for part in parts[:2]):
        raise AuthenticationError(
            f"{PROVIDER} must return access key, secret key and, if any, session token, as a tuple"
        )
    access_key, secret_key, token = (*parts, None)[:3]
    return Credentials(access_key=access_key, secret_key=secret_key, session_token=token or None)
