"""The keys of a login that all mechanisms share: what names and passwords may be, and where they are written.

Either plain keys such as `sasl.username`, or Java's `sasl.jaas.config`; never both. Java's classes cannot be loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from ottla.errors import ConfigError
from ottla.interfaces import ConfigKey, PluginConfig
from ottla_authenticator_sasl.jaas import LoginModule, login_module

JAAS: Final = "sasl.jaas.config"
USERNAME: Final = "sasl.username"
PASSWORD: Final = "sasl.password"


def a_string(raw: Any) -> str:
    """The string as it is: blanks may belong to a password."""
    if not isinstance(raw, str):
        raise ValueError("it must be a string")
    return raw


def refuse_java_class(remedy: str, *, harmless: Sequence[str] = ()) -> Callable[[Any], str]:
    """The type of a key that names a Java class: only those can be had of which we do the same anyway."""

    def parse(raw: Any) -> str:
        name = str(raw).strip()
        if name.rpartition(".")[2] not in harmless:
            raise ValueError(f"Java's classes cannot be loaded here; {remedy}")
        return name

    return parse


JAAS_KEY: Final = ConfigKey(
    name=JAAS,
    type=a_string,
    default=None,
    meaning="Java's string of login module and options, such as: org...PlainLoginModule required username=...;",
    secret=True,
)

JAVA_CLASS_KEYS: Final = (
    ConfigKey(
        name="sasl.client.callback.handler.class",
        type=refuse_java_class("leave it out; another mechanism is a plugin of the group ottla.authenticators"),
        default=None,
        meaning="not to be had",
    ),
    ConfigKey(
        name="sasl.login.class",
        type=refuse_java_class("leave it out; another mechanism is a plugin of the group ottla.authenticators"),
        default=None,
        meaning="not to be had",
    ),
)

LOGIN_CALLBACK_KEY: Final = ConfigKey(
    name="sasl.login.callback.handler.class",
    type=refuse_java_class("leave it out, and write the login into sasl.username and sasl.password"),
    default=None,
    meaning="not to be had",
)

LOGIN_KEYS: Final = (
    ConfigKey(name=USERNAME, type=a_string, default=None, meaning="who logs in"),
    ConfigKey(name=PASSWORD, type=a_string, default=None, meaning="the password, as a string", secret=True),
    JAAS_KEY,
    LOGIN_CALLBACK_KEY,
    *JAVA_CLASS_KEYS,
)


@attrs.frozen(kw_only=True)
class Login:
    """A name and a password, as the UTF-8 bytes that they are: like Java, no SASLprep.

    `keys` are those that the user wrote, for errors. `options` are the other ones of a `sasl.jaas.config`.
    """

    name: str
    password: str = attrs.field(repr=False)
    keys: str
    options: Mapping[str, str] = attrs.field(factory=dict, repr=False)


def login(config: PluginConfig, *, mechanism: str, module: str) -> Login:
    """Name and password from the plain keys, or from the options of Java's login module. ConfigError."""
    options = module_options(config, mechanism=mechanism, module=module, plain=(USERNAME, PASSWORD))
    if options is None:
        keys, name, password = f"{USERNAME} and {PASSWORD}", config[USERNAME], config[PASSWORD]
    else:
        keys, name, password = JAAS, options.get("username"), options.get("password")
    if not name or not password:
        where = f"{USERNAME} and {PASSWORD}" if options is None else f"the options username and password of {JAAS}"
        raise ConfigError([f"sasl.mechanism={mechanism} needs {where}, neither of them empty"])
    if "\0" in name or "\0" in password:
        raise ConfigError([f"{keys}: a NUL character cannot be part of a name or a password"])
    if not (_is_utf8(name) and _is_utf8(password)):
        raise ConfigError([f"{keys}: a lone surrogate has no UTF-8; was the value read with another encoding?"])
    return Login(name=name, password=password, keys=keys, options=options or {})


def module_options(
    config: PluginConfig, *, mechanism: str, module: str, plain: Sequence[str]
) -> Mapping[str, str] | None:
    """The options of `sasl.jaas.config`, None without it. ConfigError: it is wrong, or *plain* keys are there too."""
    written = config[JAAS]
    if written is None:
        return None
    both = [key for key in plain if config[key] is not None]
    if both:
        raise ConfigError([f"{JAAS} and {', '.join(both)} are both given; leave one out"])
    found = _login_module(written)
    if found.name != module:
        raise ConfigError([f"{JAAS}: sasl.mechanism={mechanism} needs a {module}, and another login module is named"])
    return found.options


def _login_module(written: str) -> LoginModule:
    try:
        return login_module(written)
    except ValueError as error:
        form = 'write: org.apache.kafka...LoginModule required option="value" ... ;'
        raise ConfigError([f"{JAAS}: {error}; {form}"]) from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
