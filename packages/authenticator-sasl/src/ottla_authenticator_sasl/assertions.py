"""Signed assertions (RFC 7523): a JWT that authenticates the client, instead of a secret.

An assertion comes from a file that another program keeps current, or is created for each request and signed by a
private key. The keys are Java's (KIP-1139, KIP-1258), and one of librdkafka's for a private key as text. Files must be
allowed, because an option names the server that gets the assertion or its signature.
"""

from __future__ import annotations

import importlib
import json
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import attrs

from ottla.config.allow_lists import NotAllowedError, check_file, read_file
from ottla.errors import AuthenticationError, ConfigError, PluginNotFoundError, printable, quoted
from ottla.interfaces import PluginConfig, Secret
from ottla_authenticator_sasl.assertion_keys import (
    ALGORITHM,
    AUDIENCE,
    EXPIRY,
    FILE,
    FILES,
    ISSUER,
    JTI,
    KEY_FILE,
    KEY_PEM,
    NOT_BEFORE,
    PASSPHRASE,
    SUBJECT,
    TEMPLATE,
)
from ottla_authenticator_sasl.bearer_token import is_sendable

MAX_FILE: Final = 256 * 1024


class Assertion(Protocol):
    """A source of assertions; called for each request."""

    def __call__(self) -> str:
        """Return the assertion. Raises AuthenticationError."""


@attrs.frozen
class AssertionFile:
    """An assertion that another program keeps current in a file."""

    path: str

    def __call__(self) -> str:
        """Return the file's contents without surrounding whitespace."""
        assertion = _content(FILE, self.path).decode("ascii", "replace").strip()
        if not is_sendable(assertion):
            raise AuthenticationError(f"the content of the file that {FILE} names is not a JWT")
        return assertion


@attrs.frozen(kw_only=True)
class SignedAssertion:
    """An assertion created here. *claims* override the template's, and the times override both."""

    algorithm: str
    private_key: Callable[[], Secret[bytes]] = attrs.field(repr=False)
    passphrase: Secret[str] | None = None
    claims: Mapping[str, str]
    template: str | None = None
    expires_after: float
    valid_before: float
    with_id: bool
    clock: Callable[[], float] = time.time

    def __call__(self) -> str:
        """Return a new assertion that is valid from now."""
        template = {} if self.template is None else _template(self.template)
        header = {name: value for name, value in template.get("header", {}).items() if name not in ("alg", "typ")}
        now = int(self.clock())
        times = {"iat": now, "exp": now + int(self.expires_after), "nbf": now - int(self.valid_before)}
        number = {"jti": str(uuid.uuid4())} if self.with_id else {}
        payload = {**template.get("payload", {}), **self.claims, **times, **number}
        try:
            signed: str = _library().encode(payload, self._key(), algorithm=self.algorithm, headers=header)
        except AuthenticationError:
            raise
        except Exception as error:  # PyJWT's own, and TypeError for claims and keys; its words may hold either
            raise AuthenticationError(
                f"the assertion cannot be signed by {self.algorithm}: {type(error).__name__}; is the key of "
                f"{KEY_FILE} for it ({ALGORITHM}), and are iss, sub and aud strings?"
            ) from None
        return signed

    def _key(self) -> Any:
        serialization = importlib.import_module("cryptography.hazmat.primitives.serialization")
        content = self.private_key()
        try:
            return serialization.load_pem_private_key(content.reveal(), self._passphrase())
        except (TypeError, ValueError) as error:
            raise AuthenticationError(
                f"the private key of {KEY_FILE} (or {KEY_PEM}) cannot be read ({type(error).__name__}): it must be "
                f"PEM, and {PASSPHRASE} must be set if and only if the key is encrypted"
            ) from None

    def _passphrase(self) -> bytes | None:
        return None if self.passphrase is None else self.passphrase.reveal().encode()


def assertion(config: PluginConfig) -> Assertion | None:
    """Return the configured assertion, or None. Raises ConfigError, and PluginNotFoundError without PyJWT."""
    for key in FILES:
        if config[key] is not None:
            try:
                check_file(config[key])
            except NotAllowedError as error:
                raise ConfigError([f"{key}: {error}"]) from None
    if config[FILE] is not None:
        made_here = [key for key in (KEY_FILE, KEY_PEM, TEMPLATE, ISSUER, SUBJECT, AUDIENCE) if config[key] is not None]
        if made_here:
            raise ConfigError(
                [f"{FILE} names a signed assertion, but {', '.join(made_here)} create one; leave one out"]
            )
        return AssertionFile(config[FILE])
    if config[KEY_FILE] is None and config[KEY_PEM] is None:
        made_here = [key for key in (TEMPLATE, ISSUER, SUBJECT, AUDIENCE) if config[key] is not None]
        if made_here:
            raise ConfigError([f"{', '.join(made_here)} need a private key; set {KEY_FILE} or {KEY_PEM}"])
        return None
    return _signed(config)


def _signed(config: PluginConfig) -> SignedAssertion:
    path, text = config[KEY_FILE], config[KEY_PEM]
    if path is not None and text is not None:
        raise ConfigError([f"{KEY_FILE} and {KEY_PEM} are both given; leave one out"])
    claims = {"iss": config[ISSUER], "sub": config[SUBJECT], "aud": config[AUDIENCE]}
    _library()
    made = SignedAssertion(
        algorithm=config[ALGORITHM],
        private_key=(lambda: _encoded(text)) if text is not None else (lambda: Secret(_content(KEY_FILE, path))),
        passphrase=config[PASSPHRASE],
        claims={name: value for name, value in claims.items() if value is not None},
        template=config[TEMPLATE],
        expires_after=config[EXPIRY],
        valid_before=config[NOT_BEFORE],
        with_id=config[JTI],
    )
    try:
        made()
    except AuthenticationError as error:
        raise ConfigError([str(error)]) from None
    return made


def _encoded(text: Secret[str]) -> Secret[bytes]:
    return Secret(text.reveal().encode())


def _library() -> Any:
    try:
        importlib.import_module("cryptography")
        return importlib.import_module("jwt")
    except ImportError as error:
        raise PluginNotFoundError(
            f"{KEY_FILE} signs assertions with the library PyJWT; try: pip install 'ottla-authenticator-sasl[jwt]' "
            f"({printable(str(error))})"
        ) from None


def _template(path: str) -> dict[str, dict[str, Any]]:
    """Return the template's two parts: {"header": {...}, "payload": {...}}."""
    try:
        found = json.loads(_content(TEMPLATE, path))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(part, {}), dict) for part in ("header", "payload")):
        raise AuthenticationError(
            f'the file of {TEMPLATE} must be JSON of the form {{"header": {{}}, "payload": {{}}}}'
        )
    return found


def _content(key: str, path: str) -> bytes:
    try:
        return read_file(path, max_bytes=MAX_FILE)
    except OSError as error:
        raise AuthenticationError(
            f"the file {quoted(path)} of {key} cannot be read: {printable(str(error.strerror))}"
        ) from error
    except ValueError as error:  # not allowed, or too large
        raise AuthenticationError(f"the file of {key} cannot be used: {error}") from error
