"""Names of keys: Kafka's dotted names, Python's keywords, and suggestions for unknown ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.config.in_force import GIVEN
from ottla.config.other_clients import OTHER_CLIENTS, OtherKey
from ottla.config.properties import MAX_NAME
from ottla.errors.secret import SourcedSecret, revealed
from ottla.errors.setting_sources import EnvironmentVariable, FileLine
from ottla.errors.similar_names import most_similar

KEYS_OF_OWN_PLUGINS: Final = frozenset(
    {
        "https.ca.location",
        "https.ca.pem",
        "https.certificate.location",
        "https.certificate.pem",
        "https.key.location",
        "https.key.password",
        "https.key.pem",
        "sasl.allow.cleartext.credentials",
        "sasl.credentials.provider",
        "sasl.kerberos.keytab",
        "sasl.kerberos.principal",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.token.provider",
        "sasl.password",
        "sasl.scram.tokenauth",
        "sasl.username",
        "ssl.crl.location",
    }
)
"""Keys of `ottla-authenticator-sasl` and `ottla-transport-ssl` that Java's producer does not have."""

_OWN_PACKAGES: Final[Mapping[str, str]] = {
    "https.": "ottla-authenticator-sasl",
    "sasl.": "ottla-authenticator-sasl",
    "ssl.": "ottla-transport-ssl",
}
"""The packages whose keys begin with these words, for those keys that Java's producer does not have."""


_NAME: Final = re.compile(r"[a-z][a-z0-9]*(?:[._][a-z0-9]+)+")
"""What looks like a name: words of small letters, with dots."""

_NOWHERE: Final = "neither Kafka nor a plugin that the configuration chooses has it"


def without(settings: dict[str, Any], keywords: Iterable[str]) -> dict[str, Any]:
    """The *settings*, without those that *keywords* replace: they are None, which means not set."""
    return settings | dict.fromkeys(key for keyword in keywords if (key := key_of(keyword)) in settings)


def merge(settings: Mapping[str, object], keywords: Mapping[str, object], *, problems: list[str]) -> dict[str, object]:
    """Merge both spellings into one mapping with dotted names. As in Java, a key with the value None is not set."""
    merged: dict[str, object] = {}
    if not isinstance(settings, Mapping):
        problems.append(
            f"the settings must be a mapping with Kafka's names, not {type(revealed(settings)).__name__}; or use "
            "keywords such as bootstrap_servers='localhost:9092'"
        )
        settings = {}
    for name, value in settings.items():
        if isinstance(name, str):
            merged[name] = value
        else:
            problems.append(f"{name!r} is not a key; keys are strings such as 'linger.ms'")
    for keyword, value in keywords.items():
        key = key_of(keyword)
        if merged.get(key) is None:
            merged[key] = value
        elif value is not None:
            problems.append(f"{key} is given twice, as {key!r} and as {keyword}=...; leave one out")
    return merged


def sources_of(settings: Mapping[str, object], keywords: Mapping[str, object]) -> dict[str, str]:
    """Where each merged setting came from: a keyword, or what the hidden settings know of it."""
    found = {}
    for key, value in settings.items() if isinstance(settings, Mapping) else ():
        if value is not None:
            found[key] = (value.source if isinstance(value, SourcedSecret) else None) or GIVEN
    for keyword, value in keywords.items():
        if value is not None:
            found.setdefault(key_of(keyword), f"keyword {keyword}")
    return found


def key_of(keyword: str) -> str:
    """Return the key of a keyword argument."""
    return keyword.replace("_", ".")


def of_another_client(key: str) -> OtherKey | None:
    """Return what a key of another client is here; None for other keys. Any spelling counts."""
    return OTHER_CLIENTS.get(dotted(key))


def dotted(key: str) -> str:
    """Return a key in Kafka's spelling."""
    return key.strip().lower().replace("_", ".").replace("-", ".")


def add_misnamed(settings: dict[str, object]) -> dict[str, str]:
    """Use the values of other clients' keys for what these are here, if both have the same values. Return the names.

    These keys are refused nevertheless. So one error lists the other problems, too: `sasl.mechanisms=PLAIN` does not
    mean that `sasl.mechanism` was left out.
    """
    added: dict[str, str] = {}
    for key in list(settings):
        other = of_another_client(key)
        if other is not None and other.name is not None and not other.remark and other.name not in settings:
            settings[other.name] = settings[key]
            added[key] = other.name
    return added


def unknown(key: str, *, known: Iterable[str], source: str | None = None) -> str:
    """The message about an unknown key; it suggests what the key is called here, or the most similar known key.

    What a line of a file begins with may be a part of a password or key that begins in an earlier line. It is not
    quoted, unless it looks like a name.
    """
    hint = _hint(key[:MAX_NAME], known=sorted(known))
    if isinstance(source, FileLine) and not hint and _NAME.fullmatch(key) is None:
        return (
            f"line {source.line} of {source} does not begin with the name of a setting; it is not quoted, because it "
            "may be part of a secret: a value of several lines needs a backslash at the end of each but the last"
        )
    shown = repr(key) if len(key) <= MAX_NAME else f"a name of {len(key)} characters"
    if isinstance(source, EnvironmentVariable):
        shown, hint = f"{shown} ({source})", hint or _NOWHERE
        hint += " If" if hint.endswith("?") else "; if"
        hint += " it is another program's variable, or a Kubernetes Service's, choose another prefix"
    return f"{shown} is not a known key; {hint or _NOWHERE}"


def _hint(key: str, *, known: Sequence[str]) -> str:
    if (other := of_another_client(key)) is not None:
        return other.hint()
    spelt = dotted(key)
    if spelt in KEYS_OF_OWN_PLUGINS and spelt not in known:
        [package] = {name for prefix, name in _OWN_PACKAGES.items() if spelt.startswith(prefix)}
        return f"a plugin that is not installed has it; try: pip install {package}"
    if (near := most_similar(spelt, known)) is not None:
        return f"did you mean {near!r}?"
    return ""
