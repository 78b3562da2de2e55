"""Configuration keys of a login that all mechanisms share, and their types.

Name and password come from plain keys such as `sasl.username`, from Java's `sasl.jaas.config`, or from a function;
never from two of them. Java's classes cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.errors import AuthenticationError, ConfigError, with_article
from ottla.interfaces import ConfigKey, PluginConfig, Secret
from ottla_authenticator_sasl.credentials import (
    CallbackCredentials,
    Credentials,
    FixedCredentials,
    UserPassword,
    answer,
    made,
)
from ottla_authenticator_sasl.jaas import HiddenOptions, login_module
from ottla_authenticator_sasl.user_functions import Function, a_function

JAAS: Final = "sasl.jaas.config"
USERNAME: Final = "sasl.username"
PASSWORD: Final = "sasl.password"
PROVIDER: Final = "sasl.credentials.provider"


def a_string(raw: Any) -> str:
    """Return the string unchanged: spaces may belong to a password."""
    if not isinstance(raw, str):
        raise ValueError("it must be a string")
    return raw


def a_secret(raw: Any) -> Secret[str]:
    """Return the string unchanged and hidden."""
    return Secret(a_string(raw))


def a_secret_or_function(raw: Any) -> Secret[str] | Function:
    """Return a hidden string, or a function that returns one."""
    return a_function(raw) if callable(raw) else a_secret(raw)


def refuse_java_class(remedy: str, *, harmless: Sequence[str] = ()) -> Callable[[Any], str]:
    """Return a type for keys that name a Java class: it accepts only *harmless* ones, whose work Ottla does anyway."""

    def parse(raw: Any) -> str:
        name = str(raw).strip()
        if name.rpartition(".")[2] not in harmless:
            raise ValueError(f"Java's classes cannot be loaded here; {remedy}")
        return name

    return parse


JAAS_KEY: Final = ConfigKey(
    name=JAAS,
    type=a_secret,
    default=None,
    meaning="a login module and its options, as in Java: org...PlainLoginModule required username=...;",
    secret=True,
)

JAVA_CLASS_KEYS: Final = (
    ConfigKey(
        name="sasl.client.callback.handler.class",
        type=refuse_java_class("leave it out; another mechanism is a plugin of the group ottla.authenticators"),
        default=None,
        meaning="not available: a Java class",
    ),
    ConfigKey(
        name="sasl.login.class",
        type=refuse_java_class("leave it out; another mechanism is a plugin of the group ottla.authenticators"),
        default=None,
        meaning="not available: a Java class",
    ),
)

LOGIN_CALLBACK_KEY: Final = ConfigKey(
    name="sasl.login.callback.handler.class",
    type=refuse_java_class("leave it out, and set sasl.username and sasl.password"),
    default=None,
    meaning="not available: a Java class",
)

LOGIN_KEYS: Final = (
    ConfigKey(
        name=USERNAME,
        type=a_secret_or_function,
        default=None,
        meaning="the user name: a string, or a function without arguments that returns it for each login",
        rotates=True,
    ),
    ConfigKey(
        name=PASSWORD,
        type=a_secret_or_function,
        default=None,
        meaning="the password: a string, or a function without arguments that returns it for each login",
        secret=True,
        rotates=True,
    ),
    ConfigKey(
        name=PROVIDER,
        type=a_function,
        default=None,
        meaning="a function without arguments, plain or async, that returns name and password for each login",
    ),
    attrs.evolve(JAAS_KEY, type=a_secret_or_function, rotates=True),
    LOGIN_CALLBACK_KEY,
    *JAVA_CLASS_KEYS,
)


def login(config: PluginConfig, *, mechanism: str, module: str) -> Credentials:
    """Return the credentials from their keys, from Java's login module, or from a function. Raises ConfigError."""
    sources = [
        ", ".join(given)
        for keys in ((JAAS,), (PROVIDER,), (USERNAME, PASSWORD))
        if (given := [key for key in keys if config[key] is not None])
    ]
    if len(sources) > 1:
        raise ConfigError([f"{' and '.join(sources)} are both given; leave one out"])
    if config[JAAS] is not None:
        return _credentials(lambda: _by_java(config, mechanism=mechanism, module=module), config, (JAAS,), keys=JAAS)
    if config[PROVIDER] is not None:
        return _credentials(lambda: _by_function(config), config, (PROVIDER,), keys=PROVIDER)
    if config[USERNAME] is None or config[PASSWORD] is None:
        raise ConfigError([_missing(mechanism, f"{USERNAME} and {PASSWORD}")])
    keys = f"{USERNAME} and {PASSWORD}"
    return _credentials(lambda: _by_keys(config, mechanism, keys), config, (USERNAME, PASSWORD), keys=keys)


def module_options(
    config: PluginConfig, *, mechanism: str, module: str, plain: Sequence[str]
) -> Mapping[str, str] | None:
    """Return the options of `sasl.jaas.config`, or None if it is not set.

    Raises ConfigError if it is invalid, or if one of the *plain* keys is set as well.
    """
    written = config[JAAS]
    if written is None:
        return None
    both = [key for key in plain if config[key] is not None]
    if both:
        raise ConfigError([f"{JAAS} and {', '.join(both)} are both given; leave one out"])
    options = _options(written, mechanism=mechanism, module=module)
    if isinstance(options, str):
        raise ConfigError([options])
    return options


def _credentials(
    make: Callable[[], UserPassword | str], config: PluginConfig, sources: Sequence[str], *, keys: str
) -> Credentials:
    """Return fixed credentials, or credentials that are created for each login if a source is a function."""
    if any(callable(config[key]) for key in sources):
        known = config[USERNAME]
        identity = known.reveal() if isinstance(known, Secret) else None
        return CallbackCredentials(lambda: _usable(make()), keys=keys, identity=identity)
    login = make()
    if isinstance(login, str):
        raise ConfigError([login])
    return FixedCredentials(login, keys=keys)


def _usable(login: UserPassword | str) -> UserPassword:
    if isinstance(login, str):
        raise AuthenticationError(login)
    return login


def _by_keys(config: PluginConfig, mechanism: str, keys: str) -> UserPassword | str:
    name = answer(config[USERNAME], key=USERNAME, wanted="the user name")
    password = answer(config[PASSWORD], key=PASSWORD, wanted="the password")
    if "" in (name.reveal(), password.reveal()):
        return _missing(mechanism, keys)
    return made(name, password, keys=keys, options={})


def _by_function(config: PluginConfig) -> UserPassword | str:
    pair = answer(config[PROVIDER], key=PROVIDER, wanted="name and password")
    if not isinstance(pair.reveal(), tuple | list) or len(pair.reveal()) != 2:
        given = with_article(type(pair.reveal()).__name__)
        return f"{PROVIDER} returned {given} instead of a pair; return (name, password)"
    return made(Secret(pair.reveal()[0]), Secret(pair.reveal()[1]), keys=PROVIDER, options={})


def _by_java(config: PluginConfig, *, mechanism: str, module: str) -> UserPassword | str:
    written = answer(config[JAAS], key=JAAS, wanted="the login module")
    options = _options(written, mechanism=mechanism, module=module)
    if isinstance(options, str):
        return options
    if not options.get("username") or not options.get("password"):
        return _missing(mechanism, f"the options username and password of {JAAS}")
    return made(Secret(options["username"]), Secret(options["password"]), keys=JAAS, options=options)


def _missing(mechanism: str, where: str) -> str:
    return f"sasl.mechanism={mechanism} needs {where}, and neither may be empty"


def _options(written: Secret[Any], *, mechanism: str, module: str) -> Mapping[str, str] | str:
    """Return the options of a `sasl.jaas.config`, or an error message."""
    if not isinstance(written.reveal(), str):
        return f"{JAAS} is of the type {type(written.reveal()).__name__}; it must be a string"
    try:
        found = login_module(written.reveal())
    except ValueError as error:
        return f'{JAAS}: {error}; write: org.apache.kafka...LoginModule required option="value" ... ;'
    if found.name != module:
        return f"{JAAS}: sasl.mechanism={mechanism} needs a {module}, but another login module is named"
    return HiddenOptions(found.options)
