"""OAUTHBEARER: the messages of RFC 7628 and of Java, and every source of tokens as the keys ask for it."""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import unquote

import pytest

from ottla.errors import AuthenticationError, ConnectionFailedError, ErrorCode, printable
from ottla.interfaces import Authenticator, Mechanism, Step
from ottla.network.authentication import Ask, Compute
from ottla.network.authentication import Token as BareToken
from ottla.network.authentication.exchange import Exchange
from ottla.plugins.registry import Registry
from ottla.protocol.messages.sasl_authenticate import SASL_AUTHENTICATE, SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SASL_HANDSHAKE, SaslHandshakeResponse
from ottla_authenticator_sasl import Token
from sasl_plugins import mechanism, problem, refusal
from token_endpoints import Answer, Asked, TokenServer, jwt, wait_until

VECTORS = [
    vector
    for vector in json.loads((Path(__file__).parent / "vectors" / "sasl.json").read_text())
    if vector["mechanism"] == "OAUTHBEARER"
]
PROVIDER = "sasl.oauthbearer.token.provider"
URL = "sasl.oauthbearer.token.endpoint.url"
CLIENT = {
    "sasl.oauthbearer.client.credentials.client.id": "kafka",
    "sasl.oauthbearer.client.credentials.client.secret": "s3cret-of-the-client",
}
SECRET = "s3cret-of-the-client"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
LATER = 4_000_000_000_000

Make = Callable[[dict[str, Any]], Mechanism]


@pytest.fixture
def oauth(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes mechanisms whose URL or file is allowed, and closes them."""
    made: list[Any] = []

    def make(settings: dict[str, Any]) -> Mechanism:
        url = settings.get(URL, "")
        if url.startswith("file:"):
            monkeypatch.setenv("OTTLA_ALLOWED_FILES", unquote(url.removeprefix("file://")))
        elif url:
            monkeypatch.setenv("OTTLA_ALLOWED_URLS", url)
        made.append(mechanism("OAUTHBEARER", settings))
        return made[-1]  # type: ignore[no-any-return]

    yield make
    for each in made:
        each.close()
    wait_until(lambda: not any(thread.name.startswith("ottla-token-") for thread in threading.enumerate()))


def first(made: Mechanism) -> bytes:
    return made.authenticator("kafka", 9092).start()


def started(make: Make) -> Authenticator:
    exchange = make({PROVIDER: lambda: "abc"}).authenticator("kafka", 9092)
    exchange.start()
    return exchange


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector.get("extensions")))
def test_the_first_message_is_that_of_java_byte_for_byte(oauth: Make, vector: dict[str, str]) -> None:
    extensions = vector.get("extensions", "{}").strip("{}").replace(", ", ",")
    made = oauth({PROVIDER: lambda: vector["token"], "sasl.oauthbearer.extensions": extensions})

    assert first(made).hex() == vector["clientFirstHex"]


def test_the_plugin_has_all_attributes_of_the_contract(oauth: Make) -> None:
    made = oauth({PROVIDER: lambda: "abc"})

    assert isinstance(made, Mechanism)
    assert isinstance(made.authenticator("kafka", 9092), Authenticator)
    assert made.blocking


def test_an_empty_response_is_the_consent_of_the_broker(oauth: Make) -> None:
    assert started(oauth).challenge(b"") == Step(reply=None, done=True)


def test_a_refusal_is_acknowledged_and_then_quoted(oauth: Make) -> None:
    exchange = started(oauth)

    assert exchange.challenge(b'{"status":"invalid_token"}') == Step(reply=b"\x01", done=False)
    message = refusal(exchange, b"")
    assert (
        'the broker refused the token: \'{"status":"invalid_token"}\'; check sasl.oauthbearer.token.provider' in message
    )
    assert "abc" not in message


@pytest.mark.parametrize("written", ["it was %s", '{"token": "%s"}'])
def test_a_token_that_the_broker_echoes_is_masked(oauth: Make, written: str) -> None:
    token = jwt(exp=LATER / 1000)
    made = oauth({PROVIDER: lambda: token})
    exchange = made.authenticator("kafka", 9092)
    exchange.start()

    exchange.challenge((written % token).encode())
    message = refusal(exchange, b"")
    assert "***" in message
    assert token[:20] not in message
    del exchange
    assert token[:20] not in printable(written % token)  # in the answer to a later request


def test_a_refused_token_is_not_sent_again(oauth: Make) -> None:
    numbers = iter(range(10))
    made = oauth({PROVIDER: lambda: (f"token-{next(numbers)}", LATER)})
    exchange = made.authenticator("kafka", 9092)
    assert b"token-0" in exchange.start()
    assert b"token-0" in first(made)
    exchange.challenge(b"{}")

    assert b"token-1" in first(made)


def connected(made: Mechanism, *, bare: bool = False) -> tuple[Exchange, bytes]:
    """A connection whose login has sent its token, and what it has sent."""
    versions = {SASL_HANDSHAKE.key: (0, 1)} | ({} if bare else {SASL_AUTHENTICATE.key: (0, 2)})
    exchange = Exchange(made, host="kafka", port=9092, peer="the broker", versions=versions)
    exchange.begin()
    agreed = SASL_HANDSHAKE.response(0).encode(SaslHandshakeResponse(error_code=0, mechanisms=["OAUTHBEARER"]))
    think = exchange.answered(memoryview(agreed))
    assert isinstance(think, Compute)
    sent = exchange.computed(think.work())
    return exchange, sent.data if isinstance(sent, BareToken) else cast(Ask, sent).body


def numbered(make: Make) -> Mechanism:
    numbers = iter(range(100))
    return make({PROVIDER: lambda: (f"token-{next(numbers)}", LATER)})


@pytest.mark.parametrize("text", [None, "", "no"])
@pytest.mark.parametrize("code", [ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_token_refused_by_an_error_code_alone_is_not_sent_again(
    oauth: Make, code: ErrorCode, text: str | None
) -> None:
    made = numbered(oauth)
    exchange, sent = connected(made)
    assert b"token-0" in sent
    answer = SaslAuthenticateResponse(error_code=code, error_message=text)
    with pytest.raises(AuthenticationError):
        exchange.answered(memoryview(SASL_AUTHENTICATE.response(2).encode(answer)))

    assert b"token-1" in connected(made)[1]


def test_a_broker_that_refuses_every_token_causes_few_fetches(oauth: Make) -> None:
    made = numbered(oauth)
    answer = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED)
    for _ in range(50):
        exchange, sent = connected(made)
        with pytest.raises(AuthenticationError):
            exchange.answered(memoryview(SASL_AUTHENTICATE.response(2).encode(answer)))

    assert not any(b"token-%d" % number in sent for number in range(3, 50))


def test_a_refused_handshake_does_not_count_against_the_token(oauth: Make) -> None:
    made = numbered(oauth)
    connected(made)
    exchange = Exchange(made, host="kafka", port=9092, peer="the broker", versions={17: (0, 1), 36: (0, 2)})
    exchange.begin()
    answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=[])
    with pytest.raises(AuthenticationError):
        exchange.answered(memoryview(SASL_HANDSHAKE.response(0).encode(answer)))

    assert b"token-0" in connected(made)[1]


@pytest.mark.parametrize(("certain", "shown"), [(True, b"token-1"), (False, b"token-0")])
def test_an_accepted_token_may_be_refused_later(oauth: Make, certain: bool, shown: bytes) -> None:
    made = numbered(oauth)
    exchange, _sent = connected(made)
    exchange.answered(memoryview(SASL_AUTHENTICATE.response(2).encode(SaslAuthenticateResponse())))
    exchange.refused(certain=certain)

    assert shown in connected(made)[1]


@pytest.mark.parametrize(("bare", "shown"), [(True, b"token-1"), (False, b"token-0")], ids=["before 1.0", "since"])
def test_a_disconnect_refuses_a_new_token_only_without_saslauthenticate(oauth: Make, bare: bool, shown: bytes) -> None:
    made = numbered(oauth)
    exchange, _sent = connected(made, bare=bare)
    exchange.refused(certain=exchange.bare)

    assert shown in connected(made, bare=bare)[1]


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    "given", ["abc", ("abc", LATER), ("abc", LATER, "alice"), Token("abc", LATER), jwt(exp=LATER / 1000)]
)
def test_a_function_or_coroutine_gives_the_token(oauth: Make, kind: str, given: Any) -> None:
    async def provide() -> Any:
        return given

    made = oauth({PROVIDER: provide if kind == "async" else lambda: given})
    value = given.value if isinstance(given, Token) else given if isinstance(given, str) else given[0]

    assert first(made) == f"n,,\x01auth=Bearer {value}\x01\x01".encode()


def test_a_token_function_that_needs_arguments_is_refused_at_once() -> None:
    def oauth_cb(config: str) -> tuple[str, float]:
        return "abc", LATER

    said = problem("OAUTHBEARER", {PROVIDER: oauth_cb})
    assert "it is called without arguments, and " in said
    assert "oauth_cb needs config: define it as f()" in said


def test_extensions_of_the_token_override_the_configuration(oauth: Make) -> None:
    made = oauth(
        {
            PROVIDER: lambda: Token("abc", extensions={"pool": "own"}),
            "sasl.oauthbearer.extensions": {"cluster": "lkc-1", "pool": "configured"},
        }
    )

    assert first(made) == b"n,,\x01auth=Bearer abc\x01cluster=lkc-1\x01pool=own\x01\x01"


def test_the_principal_is_the_subject_of_the_token(oauth: Make) -> None:
    made: Any = oauth({PROVIDER: lambda: jwt(client="alice"), "sasl.oauthbearer.sub.claim.name": "client"})
    assert made.identity is None
    first(made)

    assert made.identity == "alice"


def test_the_principal_of_the_token_is_printable_and_short(oauth: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    name = "\x1b[2J\u202e" + "a" * 10_000
    made: Any = oauth({PROVIDER: lambda: jwt(sub=name, scope=name, exp=LATER / 1000)})
    first(made)

    assert made.identity.isprintable()
    assert len(made.identity) == 300
    assert all(len(message) < 400 and message.isprintable() for message in caplog.messages)


@pytest.mark.parametrize(
    ("raised", "kind", "said"),
    [
        (ValueError(SECRET), AuthenticationError, f"{PROVIDER} raised ValueError ({__file__}:"),
        (TimeoutError(SECRET), ConnectionFailedError, f"{PROVIDER} failed to fetch a token: TimeoutError ({__file__}:"),
    ],
)
@pytest.mark.parametrize("kind_of_function", ["plain", "async"])
def test_an_error_of_a_function_is_reported_by_type_and_never_quoted(
    oauth: Make, raised: Exception, kind: type[Exception], said: str, kind_of_function: str
) -> None:
    def provide() -> str:
        raise raised

    async def provide_later() -> str:
        return provide()

    with pytest.raises(ConnectionFailedError) as caught:
        first(oauth({PROVIDER: provide if kind_of_function == "plain" else provide_later}))
    assert type(caught.value) is kind
    assert said in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_an_ottla_error_of_a_function_keeps_its_message(oauth: Make) -> None:
    def provide() -> str:
        raise ConnectionFailedError("the vault is sealed")

    with pytest.raises(ConnectionFailedError, match="the vault is sealed"):
        first(oauth({PROVIDER: provide}))


@pytest.mark.rule("security.allowed.files")
def test_a_file_replaced_by_a_link_is_not_followed(oauth: Make, tmp_path: Path) -> None:
    file = tmp_path / "allowed" / "token"
    file.parent.mkdir()
    file.write_text("abc")
    (tmp_path / "other").write_text("token-of-another-user")
    made = oauth({URL: file.as_uri()})
    first(made)
    os.environ["OTTLA_ALLOWED_FILES"] = f"{file.parent}/"
    file.unlink()
    file.symlink_to(tmp_path / "other")

    with pytest.raises(AuthenticationError, match="may not be read: it is not in the list of allowed files"):
        first(made)


def test_a_file_is_read_for_each_login(oauth: Make, tmp_path: Path) -> None:
    file = tmp_path / "to ken"
    made = oauth({URL: file.as_uri(), "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.FileJwtRetriever"})
    for token in ("abc", "def"):
        file.write_text(f" {token}\n")
        assert f"Bearer {token}\x01".encode() in first(made)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "returned an invalid token"),
        (b"secret\xff", "returned an invalid token"),
        (b"s" * 300_000, "has more than 262144 bytes"),
        (jwt(exp=1_000_000_000, sub="secret").encode(), "expired at 2001-09-09 01:46:40 UTC"),
    ],
)
def test_a_file_without_a_valid_token_is_reported(
    oauth: Make, tmp_path: Path, content: bytes | None, said: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(AuthenticationError) as caught:
        first(oauth({URL: file.as_uri()}))
    assert said in str(caught.value)
    assert str(file) in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(CLIENT | {"sasl.oauthbearer.scope": "produce"}, id="plain keys"),
        pytest.param(
            {"sasl.jaas.config": f'{MODULE} clientId="kafka" clientSecret="{SECRET}" scope="produce";'},
            id="Java's string",
        ),
        pytest.param(
            CLIENT | {"sasl.jaas.config": f"{MODULE} ;", "sasl.oauthbearer.scope": "produce"}, id="as Java 4.1 wants it"
        ),
        pytest.param(
            CLIENT
            | {
                "sasl.oauthbearer.scope": "produce",
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.secured."
                "OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.ClientCredentialsJwtRetriever",
            },
            id="Java's classes",
        ),
    ],
)
def test_one_token_request_serves_all_connections(oauth: Make, settings: dict[str, str]) -> None:
    with TokenServer(lambda _asked: Answer.of(access_token="abc", expires_in=3600)).serving() as server:
        made: Any = oauth(settings | {URL: server.url()})

        assert {first(made), first(made)} == {b"n,,\x01auth=Bearer abc\x01\x01"}
        assert [asked.body for asked in server.asked] == ["grant_type=client_credentials&scope=produce"]
        assert made.identity == "kafka"


def test_a_token_is_renewed_before_it_expires(oauth: Make) -> None:
    numbers = iter(range(1000))
    settings: dict[str, Any] = {
        "sasl.login.refresh.window.factor": "0.5",
        "sasl.login.refresh.window.jitter": 0,
        "sasl.login.refresh.min.period.seconds": 0,
        "sasl.login.refresh.buffer.seconds": 0,
    }

    def fetched(_asked: Asked) -> Answer:
        number = next(numbers)  # the second token is not renewed while the test waits for it
        return Answer.of(access_token=f"token-{number}", expires_in=4 if number == 0 else 3600)

    with TokenServer(fetched).serving() as server:
        made = oauth(CLIENT | settings | {URL: server.url()})
        assert b"token-0" in first(made)
        begun = time.monotonic()
        wait_until(lambda: len(server.asked) == 2)  # no login asks, so this is the thread that renews
        asked_after = time.monotonic() - begun
        wait_until(lambda: b"token-1" in first(made))

    assert asked_after < 4


def test_extensions_may_be_given_in_the_jaas_config(oauth: Make) -> None:
    made = oauth(
        {PROVIDER: lambda: "abc", "sasl.jaas.config": f'{MODULE} extension_logicalCluster="lkc-1" clientId="unused";'}
    )

    assert first(made) == b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, f"has no source of tokens; set one of {PROVIDER} and {URL}"),
        (
            {PROVIDER: lambda: "a", URL: "file:///a"},
            f"has two sources of tokens; leave out one of {PROVIDER} and {URL}",
        ),
        ({PROVIDER: "abc"}, "a function or a method without arguments"),
        ({PROVIDER: SimpleNamespace(token=lambda: "a")}, "a function or a method without arguments"),
        ({URL: "https://idp/"}, f"needs {next(iter(CLIENT))}"),
        (CLIENT | {URL: f"https://user:{SECRET}@idp/"}, f"{URL}: it must have neither a user nor a fragment"),
        ({URL: "file:///etc/passwd"}, f"{URL}: '/etc/passwd' may not be read"),
        ({URL: "file:///etc/passwd"}, "can allow it with OTTLA_ALLOWED_FILES=/etc/passwd in the environment"),
        (CLIENT | {URL: "http://127.0.0.1/t"}, "with OTTLA_ALLOWED_URLS=http://127.0.0.1/t in the environment"),
        ({URL: "FILE:///etc/%70asswd"}, "OTTLA_ALLOWED_FILES=/etc/passwd"),
        ({URL: "file:///etc/pass%00wd"}, "is not an absolute path"),
        ({URL: "file://token"}, "write the URL of a file as file:///path"),
        ({URL: "file:token"}, "write the URL of a file as file:///path"),
        (CLIENT | {URL: "https://idp/", "sasl.jaas.config": f'{MODULE} clientId="a";'}, "are both given"),
        (CLIENT | {URL: "https://idp/", "sasl.jaas.config": f'{MODULE} clientSecret="{SECRET}";'}, "are both given"),
        (
            {
                PROVIDER: lambda: "a",
                "sasl.oauthbearer.extensions": "a=b",
                "sasl.jaas.config": f'{MODULE} extension_a="b";',
            },
            "are both given",
        ),
        ({PROVIDER: lambda: "a", "sasl.oauthbearer.extensions": "a"}, "write name=value,name=value"),
        (
            {PROVIDER: lambda: "a", "sasl.oauthbearer.extensions": "auth=b"},
            "only letters are allowed, and 'auth' is reserved",
        ),
        ({PROVIDER: lambda: "a", "sasl.jaas.config": f'{MODULE} extension_a1="b";'}, "only letters are allowed"),
        (
            {PROVIDER: lambda: "a", "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="a";'},
            "unsecured tokens are not supported; set sasl.oauthbearer.token.provider",
        ),
        (
            {PROVIDER: lambda: "a", "sasl.oauthbearer.jwt.retriever.class": "com.example.OwnRetriever"},
            f"Java's classes cannot be loaded here; set {PROVIDER} to a function that returns a token",
        ),
        (
            {PROVIDER: lambda: "a", "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.FileJwtRetriever"},
            f"names the FileJwtRetriever, but the token comes from {PROVIDER}",
        ),
        (
            CLIENT | {URL: "https://idp/", "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.FileJwtRetriever"},
            "names the FileJwtRetriever, but the token comes from an identity server",
        ),
        (
            {PROVIDER: lambda: "a", "sasl.login.callback.handler.class": "com.example.Handler"},
            "Java's classes cannot be loaded here",
        ),
        ({PROVIDER: lambda: "a", "sasl.login.refresh.window.factor": 0.4}, "it must be a number from 0.5 to 1"),
        ({PROVIDER: lambda: "a", "sasl.login.refresh.window.factor": True}, "it must be a number"),
        ({PROVIDER: lambda: "a", "sasl.login.refresh.buffer.seconds": "x"}, "sasl.login.refresh.buffer.seconds='x'"),
        ({PROVIDER: lambda: "a", "sasl.oauthbearer.header.urlencode": "maybe"}, "it must be true or false"),
    ],
)
def test_unusable_settings_are_refused_with_a_remedy(settings: dict[str, Any], said: str) -> None:
    message = problem("OAUTHBEARER", settings)

    assert said in message
    assert SECRET not in message


def test_the_secret_and_the_jaas_config_are_secrets() -> None:
    keys = Registry().plugin("authenticator", "OAUTHBEARER").config_keys()

    assert {key.name for key in keys if key.secret} == {
        list(CLIENT)[1],
        "sasl.jaas.config",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "https.key.password",
        "https.key.pem",
    }
