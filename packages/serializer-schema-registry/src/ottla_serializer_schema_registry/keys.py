"""The settings, with the names that Confluent's clients use."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final
from urllib.parse import urlsplit

from ottla.config.regular_files import read_regular_file, reason_of
from ottla.errors import printable
from ottla.interfaces import ConfigKey, Secret
from ottla_serializer_schema_registry.registry.client import LATEST as NEWEST
from ottla_serializer_schema_registry.registry.schemas import Reference
from ottla_serializer_schema_registry.schema_ids import IdPlace
from ottla_serializer_schema_registry.subjects import SubjectStrategy

MAX_SCHEMA: Final = 4 << 20
"""Maximum bytes of a file with a schema, as of an answer of the registry."""

URL: Final = "schema.registry.url"
USER_INFO: Final = "basic.auth.user.info"
TOKEN: Final = "bearer.auth.token"
BASIC_SOURCE: Final = "basic.auth.credentials.source"
BEARER_SOURCE: Final = "bearer.auth.credentials.source"
ISSUER: Final = "bearer.auth.issuer.endpoint.url"
CLIENT_ID: Final = "bearer.auth.client.id"
CLIENT_SECRET: Final = "bearer.auth.client.secret"
SCOPE: Final = "bearer.auth.scope"
LOGICAL_CLUSTER: Final = "bearer.auth.logical.cluster"
IDENTITY_POOL: Final = "bearer.auth.identity.pool.id"
EXPIRY_BUFFER: Final = "bearer.auth.cache.expiry.buffer.seconds"
CA: Final = "schema.registry.ssl.ca.location"
CERTIFICATE: Final = "schema.registry.ssl.certificate.location"
PRIVATE_KEY: Final = "schema.registry.ssl.key.location"
PRIVATE_KEY_PASSWORD: Final = "schema.registry.ssl.key.password"
REGISTER: Final = "auto.register.schemas"
LATEST: Final = "use.latest.version"
NORMALIZE: Final = "normalize.schemas"
STRATEGY: Final = "subject.name.strategy"
KEY_SCHEMA: Final = "key.schema"
VALUE_SCHEMA: Final = "value.schema"

AVRO_IGNORE_UNKNOWN: Final = "avro.ignore.unknown.fields"
KEY_REFERENCES: Final = "key.schema.references"
VALUE_REFERENCES: Final = "value.schema.references"
REFERENCES: Final = {"key": KEY_REFERENCES, "value": VALUE_REFERENCES}
KEY_ID_PLACE: Final = "key.schema.id.serializer"
VALUE_ID_PLACE: Final = "value.schema.id.serializer"
ID_PLACES: Final = {"key": KEY_ID_PLACE, "value": VALUE_ID_PLACE}

MOST_SECONDS: Final = 86400


class BasicSource(Enum):
    """Where user and password come from."""

    USER_INFO = "USER_INFO"
    URL = "URL"


class BearerSource(Enum):
    """Where tokens come from."""

    STATIC_TOKEN = "STATIC_TOKEN"
    OAUTHBEARER = "OAUTHBEARER"

    def __str__(self) -> str:
        return self.value


_ID_PLACES: Final[Mapping[str, IdPlace]] = {
    **{place.value: place for place in IdPlace},
    "prefixschemaidserializer": IdPlace.PREFIX,
    "headerschemaidserializer": IdPlace.HEADER,
}

_STRATEGIES: Final[Mapping[str, SubjectStrategy]] = {
    **{strategy.value: strategy for strategy in SubjectStrategy},
    "topicnamestrategy": SubjectStrategy.TOPIC,
    "recordnamestrategy": SubjectStrategy.RECORD,
    "topicrecordnamestrategy": SubjectStrategy.TOPIC_RECORD,
}


def config_keys() -> Sequence[ConfigKey]:
    """Return the declarations."""
    return [
        ConfigKey(
            name=URL,
            type=addresses,
            default=(),
            meaning="the addresses of the schema registry, separated by commas; the next is used if one is silent",
        ),
        *_login_keys(),
        *_client_keys(),
        ConfigKey(
            name=CA, type=str, default=None, meaning="PEM file of the authorities that the registry's certificate needs"
        ),
        ConfigKey(name=CERTIFICATE, type=str, default=None, meaning="PEM file of the client's certificate"),
        ConfigKey(name=PRIVATE_KEY, type=str, default=None, meaning="PEM file of the client's private key"),
        ConfigKey(
            name=PRIVATE_KEY_PASSWORD,
            type=a_value_or_function(hidden),
            default=None,
            meaning="the private key's password: a string, or a function without arguments that returns it each time "
            "the files are read",
            secret=True,
            rotates=True,
        ),
        ConfigKey(
            name=REGISTER,
            type=boolean,
            default=None,
            meaning=f"whether a schema is registered when it is first used; left out: unless {LATEST} is true. "
            "If false, it must be registered",
        ),
        ConfigKey(
            name=LATEST,
            type=boolean,
            default=False,
            meaning="whether to serialize with the newest version of the subject, as it is at the first record",
        ),
        ConfigKey(name=NORMALIZE, type=boolean, default=False, meaning="whether the registry normalizes schemas"),
        ConfigKey(
            name=STRATEGY,
            type=strategy,
            default=SubjectStrategy.TOPIC,
            meaning="the subject of a schema: `topic` is the topic with -key or -value, `record` the full name of the "
            "record, `topic-record` both, joined by -; or the class of Java's serializer",
        ),
        ConfigKey(
            name=AVRO_IGNORE_UNKNOWN,
            type=boolean,
            default=False,
            meaning="whether fields of data that its Avro schema lacks are left out; if false, such data is refused",
        ),
        *(_schema_key(name, part) for part, name in (("keys", KEY_SCHEMA), ("values", VALUE_SCHEMA))),
        *(_references_key(REFERENCES[part], f"{part}.schema") for part in ("key", "value")),
        *(_id_place_key(ID_PLACES[part], part) for part in ("key", "value")),
    ]


def _login_keys() -> Sequence[ConfigKey]:
    return [
        ConfigKey(
            name=USER_INFO,
            type=a_value_or_function(user_info),
            default=None,
            meaning="user:password for the registry, or a function without arguments that returns it for each request",
            secret=True,
            rotates=True,
        ),
        ConfigKey(
            name=TOKEN,
            type=a_value_or_function(token),
            default=None,
            meaning="a bearer token for the registry, or a function without arguments that returns it for each "
            "request, or a token and its expiry",
            secret=True,
            rotates=True,
        ),
        ConfigKey(
            name=BASIC_SOURCE,
            type=basic_source,
            default=None,
            meaning=f"USER_INFO for {USER_INFO}, which is used without this key, too; URL for none",
        ),
        ConfigKey(
            name=BEARER_SOURCE,
            type=bearer_source,
            default=None,
            meaning=f"STATIC_TOKEN for {TOKEN}, which is used without this key, too; OAUTHBEARER for tokens of an "
            "identity server, which are renewed",
        ),
    ]


def _client_keys() -> Sequence[ConfigKey]:
    return [
        ConfigKey(
            name=ISSUER, type=text, default=None, meaning="the URL at which the identity server gives tokens to clients"
        ),
        ConfigKey(name=CLIENT_ID, type=text, default=None, meaning="the client's id at the identity server"),
        ConfigKey(
            name=CLIENT_SECRET,
            type=hidden,
            default=None,
            meaning="the client's secret at the identity server",
            secret=True,
        ),
        ConfigKey(name=SCOPE, type=text, default=None, meaning="the scope to request for a token"),
        ConfigKey(
            name=LOGICAL_CLUSTER,
            type=header,
            default=None,
            meaning="the cluster of schemas, such as lsrc-..., which is sent with each token in the header "
            "target-sr-cluster",
        ),
        ConfigKey(
            name=IDENTITY_POOL,
            type=header,
            default=None,
            meaning="the identity pool, such as pool-..., which is sent with each token in the header "
            "Confluent-Identity-Pool-Id",
        ),
        ConfigKey(
            name=EXPIRY_BUFFER,
            type=seconds,
            default=300.0,
            meaning="a token of the identity server is renewed this many seconds before its expiry, at the next "
            "request, which does not wait for it, but not before four fifths of its lifetime",
        ),
    ]


def _schema_key(name: str, part: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=lambda written: written,
        default=None,
        meaning=f"the schema of {part} as JSON, or its file; for Protobuf the class of the messages, or "
        "`module:Class`. Left out for Avro: that of the columns",
    )


def _references_key(name: str, schema: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=lambda written: written,
        default=None,
        meaning=f"the schemas of the registry that {schema} refers to: a list of `name`, `subject` and `version`, in a "
        "program or as JSON",
    )


def _id_place_key(name: str, part: str) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=id_place,
        default=IdPlace.PREFIX,
        meaning=f"where a record says which schema its {part} has: `prefix` is a byte 0 and the schema's id before the "
        "data, `header` a header with the schema's GUID; or the class of Java's serializer",
    )


def addresses(written: Any) -> tuple[str, ...]:
    """Return the addresses without a slash at the end; `address_problem` checks them."""
    parts = written.split(",") if isinstance(written, str) else [str(each) for each in written]
    return tuple(each.strip().rstrip("/") for each in parts if each.strip())


def address_problem(address: str) -> str | None:
    """Return what is wrong with an address, without repeating it: it may have a password."""
    try:
        parts = urlsplit(address)
        _ = parts.port
    except ValueError:
        return "an address is not valid"
    if parts.username is not None or parts.password is not None or "@" in address:
        return f"an address has no user and password; write {USER_INFO} instead"
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        return "each address is http://host:port or https://host:port, with or without a path"
    if not all("!" <= character <= "~" for character in address):
        return "an address has visible ASCII characters only"
    try:
        parts.hostname.encode("idna")  # as the lookup of the host does
    except UnicodeError:
        return "an address has a host name with a part that is empty or has more than 63 characters"
    return None


def hidden(written: Any) -> Secret[str]:
    """Return a text that is shown nowhere."""
    return Secret(str(written))


def user_info(written: Any) -> Secret[str]:
    """Return user:password. Raises ValueError."""
    text = Secret(str(written))
    if ":" not in text.reveal():
        raise ValueError("write user:password")
    if any("\ud800" <= character <= "\udfff" for character in text.reveal()):
        raise ValueError("it has a character that UTF-8 does not have (a lone surrogate)")
    return text


def token(written: Any) -> Secret[str]:
    """Return a token, which must fit into a header. Raises ValueError."""
    text = Secret(str(written).strip())
    if not text.reveal() or not all("!" <= character <= "~" for character in text.reveal()):
        raise ValueError("a token has visible ASCII characters only, and no spaces")
    return text


def a_value_or_function(read: Callable[[Any], Secret[str]]) -> Callable[[Any], Any]:
    """Return the type of a key whose value may be a function, or a reference, which is one, too."""

    def parse(written: Any) -> Any:
        return written if callable(written) else read(written)

    return parse


def text(written: Any) -> str:
    """Return a text that is not empty. Raises ValueError."""
    if not isinstance(written, str) or not written.strip():
        raise ValueError("write a text")
    return written.strip()


def header(written: Any) -> str:
    """Return the value of a header. Raises ValueError."""
    found = text(written)
    if not all("!" <= character <= "~" for character in found):
        raise ValueError("it has visible ASCII characters only, and no spaces")
    return found


def seconds(written: Any) -> float:
    """Return a number of seconds. Raises ValueError."""
    number = float(written)
    if not 0 <= number <= MOST_SECONDS:
        raise ValueError(f"it must be a number from 0 to {MOST_SECONDS}")
    return number


def basic_source(written: Any) -> BasicSource:
    """Return where user and password come from. Raises ValueError."""
    name = str(written).strip().upper()
    if name == "SASL_INHERIT":
        raise ValueError(f"it is not available; write {USER_INFO}, with user and password of the brokers")
    if name not in BasicSource.__members__:
        raise ValueError("write USER_INFO or URL")
    return BasicSource[name]


def bearer_source(written: Any) -> BearerSource:
    """Return where tokens come from. Raises ValueError."""
    name = str(written).strip().upper()
    if name == "SASL_OAUTHBEARER_INHERIT":
        raise ValueError(
            "it is not available; write OAUTHBEARER and bearer.auth.* with the values of sasl.oauthbearer.*, or "
            f"the function of sasl.oauthbearer.token.provider as {TOKEN}"
        )
    if name == "CUSTOM":
        raise ValueError(f"Java's classes cannot be loaded here; write a function as {TOKEN}")
    if name not in BearerSource.__members__:
        raise ValueError("write STATIC_TOKEN or OAUTHBEARER")
    return BearerSource[name]


def boolean(written: Any) -> bool:
    """Return true or false. Raises ValueError."""
    text = str(written).strip().lower()
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def strategy(written: Any) -> SubjectStrategy:
    """Return a strategy, also for the name of Java's class. Raises ValueError."""
    found = _STRATEGIES.get(str(written).strip().rpartition(".")[2].lower())
    if found is None:
        raise ValueError("write topic, record or topic-record")
    return found


def id_place(written: Any) -> IdPlace:
    """Return where the schema's id goes, also for the name of Java's class. Raises ValueError."""
    found = _ID_PLACES.get(str(written).strip().rpartition(".")[2].lower())
    if found is None:
        raise ValueError("write prefix or header")
    return found


def schema_text(written: Any) -> str:
    """Return the text of a schema: given as text or as Python's data, or read from a file. Raises ValueError."""
    if isinstance(written, dict | list):
        return json.dumps(written)
    text = str(written).strip()
    if text.startswith(("{", "[", '"')) or text in ("true", "false"):
        return text
    try:
        return read_regular_file(text, max_bytes=MAX_SCHEMA).decode().strip()
    except UnicodeDecodeError:
        problem = "the file of that name is not UTF-8"
    except (OSError, ValueError) as error:
        problem = f"no file of that name can be read: {printable(reason_of(error))}"
    raise ValueError(f"it is no JSON, and {problem}")


def references(written: Any) -> tuple[Reference, ...]:
    """Return the references of a schema: a list of mappings, also as JSON. Raises ValueError."""
    if written is None:
        return ()
    problem = "write a list such as [{'name': 'shop.Address', 'subject': 'addresses-value', 'version': 1}]"
    try:
        listed = json.loads(written) if isinstance(written, str) else list(written)
        return tuple(
            Reference(name=str(each["name"]), subject=str(each["subject"]), version=int(each.get("version", NEWEST)))
            for each in listed
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ValueError(problem) from error
