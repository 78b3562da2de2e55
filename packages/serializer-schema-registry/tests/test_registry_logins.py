"""Logins at a registry that rotate: functions as values, tokens of an identity server, a login that is refused."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile_registry import Hostile, hostile_registry, says

from machine import wait_until
from ottla import ConfigError
from ottla.errors import ConnectionFailedError, SerializationError
from ottla.interfaces import Secret
from ottla_authenticator_sasl import Token
from ottla_serializer_schema_registry import InvalidSchemaError, RegistryAccessError, RegistryUnavailableError
from ottla_serializer_schema_registry.registry import logins
from ottla_serializer_schema_registry.registry.authorization import Authorization
from ottla_serializer_schema_registry.registry.client import LATEST, SchemaRegistry
from ottla_serializer_schema_registry.registry.exchange import Deadline
from ottla_serializer_schema_registry.registry.exchanges import Exchanges
from ottla_serializer_schema_registry.registry.logins import Issued, RenewedLogin
from ottla_serializer_schema_registry.registry.schemas import AVRO
from ottla_testkit.mock_producer import MockProducer
from token_endpoints import Answer, Asked, TokenServer


class Checked:
    """A registry that knows some values of the header Authorization, which a test changes."""

    def __init__(self, server: Hostile) -> None:
        self.server = server
        self.valid: set[str] = set()
        server.last = self._answer

    @property
    def sent(self) -> list[str]:
        return [headers["Authorization"] for _line, headers, _body in self.server.requests]

    def _answer(self, handler: Any) -> None:
        known = handler.headers["Authorization"] in self.valid
        words = {"error_code": 40101, "message": f"no such login: {handler.headers['Authorization']}"}
        (says({"id": 7}) if known else says(words, status=401))(handler)


@pytest.fixture
def registry() -> Iterator[Checked]:
    with hostile_registry() as server:
        yield Checked(server)


def producer(registry: Checked, **settings: Any) -> MockProducer:
    return MockProducer(
        {
            "value.serializer": "avro",
            "value.schema": '"long"',
            "schema.registry.url": registry.server.address,
            "max.block.ms": 30_000,
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


def cause(sends: MockProducer, topic: str = "numbers") -> BaseException:
    with pytest.raises(SerializationError) as caught:
        sends.send(topic, 1)
    assert caught.value.__cause__ is not None
    return caught.value.__cause__


def basic(user_info: str) -> str:
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def test_a_function_is_called_for_each_request(registry: Checked) -> None:
    registry.valid = {"Bearer first", "Bearer second"}
    tokens = iter(["first", "second"])
    with producer(registry, bearer_auth_token=lambda: next(tokens)) as sends:
        for topic in ("one", "two"):
            sends.send(topic, 1)
            sends.send(topic, 2)
    assert registry.sent == ["Bearer first", "Bearer second"]


async def awaited_token() -> str:
    return "token"


class WithCall:
    def __call__(self) -> str:
        return "token"


@pytest.mark.parametrize(
    "function", [awaited_token, WithCall(), lambda: ("token", None), lambda: Token("token"), lambda: " token\n"]
)
def test_a_token_may_be_given_in_several_forms(registry: Checked, function: Callable[[], Any]) -> None:
    registry.valid = {"Bearer token"}
    with producer(registry, bearer_auth_token=function) as sends:
        sends.send("numbers", 1)
    assert registry.sent == ["Bearer token"]


@pytest.mark.parametrize("given", ["alice:s3cret:x", ("alice", "s3cret:x")])
def test_user_and_password_may_come_from_a_function(registry: Checked, given: Any) -> None:
    registry.valid = {basic("alice:s3cret:x")}
    with producer(registry, basic_auth_user_info=lambda: given) as sends:
        sends.send("numbers", 1)
    assert registry.sent == [basic("alice:s3cret:x")]


def test_a_refused_login_is_renewed_and_the_request_repeated(registry: Checked) -> None:
    registry.valid = {"Bearer new"}
    tokens = iter(["old", "new"])
    with producer(registry, bearer_auth_token=lambda: next(tokens)) as sends:
        sends.send("numbers", 1)
    assert registry.sent == ["Bearer old", "Bearer new"]


def test_the_same_login_is_not_sent_again_after_a_refusal(registry: Checked) -> None:
    with producer(registry, bearer_auth_token=lambda: "s3cret-token") as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert registry.sent == ["Bearer s3cret-token"]
    assert "s3cret-token" not in str(error), "the registry has repeated it"
    assert "no such login" in str(error)


def test_a_second_refusal_is_final(registry: Checked) -> None:
    tokens = iter(["first", "second", "third"])
    with producer(registry, bearer_auth_token=lambda: next(tokens)) as sends:
        assert isinstance(cause(sends), RegistryAccessError)
    assert registry.sent == ["Bearer first", "Bearer second"]


def test_a_token_with_an_expiry_is_kept(registry: Checked) -> None:
    registry.valid = {"Bearer kept"}
    calls: list[float] = []

    def token() -> Token:
        calls.append(time.time())
        return Token("kept", (time.time() + 3600) * 1000)

    with producer(registry, bearer_auth_token=token) as sends:
        for number in range(5):
            sends.send(f"topic-{number}", 1)
    assert len(calls) == 1
    assert registry.sent == ["Bearer kept"] * 5


def test_a_new_token_that_is_refused_is_not_replaced(registry: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = iter(range(100))

    def token() -> Token:
        return Token(f"token-{next(numbers)}", (time.time() + 3600) * 1000)

    with producer(registry, bearer_auth_token=token) as sends:
        for topic in ("one", "two", "three"):
            assert isinstance(cause(sends, topic), RegistryAccessError)
        assert registry.sent == ["Bearer token-0"] * 3
        monkeypatch.setattr(logins, "NEW", 0.0)  # as if it were older
        registry.valid = {"Bearer token-1"}
        sends.send("four", 1)
    assert registry.sent[3:] == ["Bearer token-0", "Bearer token-1"]


def no_login_is_fetched() -> bool:
    return all(each.name != "ottla-registry-login" for each in threading.enumerate())


def test_a_valid_token_is_used_while_no_other_can_be_had(
    registry: Checked, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    registry.valid = {"Bearer kept"}
    monkeypatch.setattr(logins, "_LARGEST_PART", 1.0)  # so that it is renewed at each request
    calls: list[float] = []

    def token() -> Token:
        calls.append(time.time())
        if len(calls) > 1:
            raise OSError("the vault is away")
        return Token("kept", (time.time() + 100) * 1000)

    with producer(registry, bearer_auth_token=token) as sends:
        for topic in ("one", "two", "three", "four"):
            sends.send(topic, 1)
            wait_until(no_login_is_fetched, timeout=20)
    assert registry.sent == ["Bearer kept"] * 4
    assert len(calls) == 2, "a failed renewal is not repeated at once"
    [warning] = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert "could not be renewed; requests use the last one until it expires: bearer.auth.token could" in warning


def test_no_request_waits_for_a_renewal_while_its_token_is_valid(
    registry: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.valid = {"Bearer kept"}
    monkeypatch.setattr(logins, "_LARGEST_PART", 1.0)
    calls: list[float] = []
    ended = threading.Event()

    def token() -> Token:
        calls.append(time.time())
        if len(calls) > 1:
            ended.wait(60)  # the vault is silent
        return Token("kept", (time.time() + 100) * 1000)

    try:
        with producer(registry, bearer_auth_token=token, max_block_ms=10_000) as sends:
            for topic in ("one", "two", "three"):
                sends.send(topic, 1)
            wait_until(lambda: len(calls) == 2, timeout=20)  # the renewal's thread may begin after the last request
    finally:
        ended.set()
    assert registry.sent == ["Bearer kept"] * 3


def test_a_late_token_replaces_no_newer_one(registry: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "FETCH_LIMIT", 1.0)
    registry.valid = {"Bearer newer"}
    calls: list[float] = []
    late = threading.Event()

    def token() -> Token:
        calls.append(time.time())
        if len(calls) == 1:
            late.wait(60)
            return Token("older", (time.time() + 3600) * 1000)
        return Token("newer", (time.time() + 3600) * 1000)

    try:
        with producer(registry, bearer_auth_token=token) as sends:
            sends.send("one", 1)
            late.set()
            wait_until(no_login_is_fetched, timeout=20)
            sends.send("two", 1)
    finally:
        late.set()
    assert registry.sent == ["Bearer newer"] * 2
    assert len(calls) == 2


@contextlib.contextmanager
def hanging() -> Iterator[Callable[[], str]]:
    """A function that returns a token once the block is over."""
    over = threading.Event()

    def token() -> str:
        over.wait(60)
        return "token"

    try:
        yield token
    finally:
        over.set()


def test_a_function_that_takes_too_long_is_reported_with_its_limit(
    registry: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "FETCH_LIMIT", 0.1)
    with hanging() as token, producer(registry, bearer_auth_token=token, max_block_ms=3_000) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryUnavailableError)
    assert "make it return or fail within max.block.ms, and within 0.1 s" in str(error)


def test_a_function_that_hangs_after_a_failure_is_reported_with_that(registry: Checked) -> None:
    errors = [OSError("the vault is away")]
    with hanging() as later:

        def token() -> str:
            if errors:
                raise errors.pop()
            return later()

        with producer(registry, bearer_auth_token=token, max_block_ms=3_000) as sends:
            error = cause(sends)
    assert "the last call before failed: bearer.auth.token could not fetch a token: OSError (" in str(error)


def test_words_of_the_registry_show_no_login_that_is_not_the_newest(registry: Checked) -> None:
    """The newest one is that of another thread's request."""
    tokens, first, second = iter(["s3cret-first", "s3cret-second"]), threading.Event(), threading.Event()

    def refuse(handler: Any) -> None:
        if handler.headers["Authorization"] == "Bearer s3cret-first":
            first.set()
            second.wait(20)
        says({"error_code": 42201, "message": f"bad: {handler.headers['Authorization']}"}, status=422)(handler)

    def issue() -> Issued:
        return Issued(authorization=Authorization.bearer(Secret(next(tokens))))

    def refusal(subject: str) -> str:
        with pytest.raises(InvalidSchemaError) as caught:
            asked.version(subject, LATEST, kind=AVRO, timeout=60)
        return str(caught.value)

    registry.server.last = refuse
    login = RenewedLogin(lambda: issue, source="a test")
    asked = SchemaRegistry(Exchanges([registry.server.address], authorization=login))
    with ThreadPoolExecutor(1) as thread:
        earlier = thread.submit(refusal, "one")
        assert first.wait(20)
        later = refusal("two")
        second.set()
        assert "'bad: Bearer ***'" in earlier.result(60)
    assert "'bad: Bearer ***'" in later
    assert registry.sent == ["Bearer s3cret-first", "Bearer s3cret-second"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (7, "it must return a string"),
        ("two words", "visible ASCII characters only"),
        (("token", "tomorrow"), "not a number of milliseconds"),
        (("token", 1000), "had expired when it came"),
        ("", "visible ASCII characters only"),
    ],
)
def test_a_value_that_is_no_token_is_refused(registry: Checked, given: Any, words: str) -> None:
    with producer(registry, bearer_auth_token=lambda: given) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert words in str(error)
    assert "bearer.auth.token" in str(error)
    assert registry.sent == []


@pytest.mark.parametrize("given", ["no-colon", ("al:ice", "x"), ("alice",), None, "alice:\ud800"])
def test_a_value_without_user_and_password_is_refused(registry: Checked, given: Any) -> None:
    with producer(registry, basic_auth_user_info=lambda: given) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert "basic.auth.user.info" in str(error)
    assert "no-colon" not in str(error)
    assert registry.sent == []


def test_an_exception_of_the_function_is_not_quoted(registry: Checked) -> None:
    def token() -> str:
        raise LookupError("the vault says s3cret")

    with producer(registry, bearer_auth_token=token) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert "bearer.auth.token raised LookupError (" in str(error)
    assert "s3cret" not in str(error)


def test_an_error_of_the_network_is_tried_again(registry: Checked) -> None:
    registry.valid = {"Bearer token"}
    errors: list[Exception] = [ConnectionFailedError("the vault is away"), OSError("s3cret")]

    def token() -> str:
        if errors:
            raise errors.pop()
        return "token"

    with producer(registry, bearer_auth_token=token) as sends:
        sends.send("numbers", 1)
    assert registry.sent == ["Bearer token"]


def test_a_function_that_hangs_costs_no_more_than_max_block_ms(registry: Checked) -> None:
    with hanging() as token, producer(registry, bearer_auth_token=token, max_block_ms=500) as sends:
        began = time.monotonic()
        error = cause(sends)
        assert time.monotonic() - began < 20
    assert isinstance(error, RegistryUnavailableError)


def test_one_call_serves_all_threads_that_wait(registry: Checked) -> None:
    registry.valid = {"Bearer token"}
    running, most, guard = 0, 0, threading.Lock()
    all_wait = threading.Barrier(8)

    def token() -> Token:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.05)
        with guard:
            running -= 1
        return Token("token", (time.time() + 3600) * 1000)

    with producer(registry, bearer_auth_token=token) as sends, ThreadPoolExecutor(8) as threads:

        def send(number: int) -> None:
            all_wait.wait(30)
            sends.send(f"topic-{number}", 1)

        list(threads.map(send, range(8)))
    assert most == 1
    assert registry.sent == ["Bearer token"] * 8


def test_a_forked_process_gets_its_own_login_while_the_parent_waits(registry: Checked) -> None:
    registry.valid = {"Bearer token"}
    parent, called, ended = os.getpid(), threading.Event(), threading.Event()

    def token() -> str:
        if os.getpid() == parent:
            called.set()
            ended.wait(60)
        return "token"

    login = RenewedLogin(lambda: lambda: Issued(authorization=Authorization.bearer(Secret(token()))), source="a test")
    waiting = threading.Thread(target=lambda: login.current(Deadline(60)))
    waiting.start()
    assert called.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads, which is what this is about
        child = os.fork()
    if child == 0:
        try:
            os._exit(0 if login.current(Deadline(20)) == Authorization.bearer(Secret("token")) else 1)
        finally:
            os._exit(2)
    ended.set()
    waiting.join(30)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_reference_is_read_again_for_each_request(registry: Checked, tmp_path: Path) -> None:
    registry.valid = {"Bearer first", "Bearer second"}
    file = tmp_path / "secrets.properties"
    file.write_text("token=first")
    settings = {"config.providers": "file", "bearer.auth.token": f"${{file:{file}:token}}"}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("OTTLA_ALLOWED_FILES", f"{tmp_path}/")
        with producer(registry, **settings) as sends:
            sends.send("one", 1)
            file.write_text("token=second")
            sends.send("two", 1)
    assert registry.sent == ["Bearer first", "Bearer second"]


# Tokens of an identity server


class Issuer:
    """An identity server that numbers its tokens, and the registry that knows those."""

    def __init__(self, registry: Checked) -> None:
        self.registry = registry
        self.server = TokenServer(self._answer)
        self.lifetime: int | None = 3600
        self.answers: list[Answer] = []
        self.issued = 0

    def settings(self, **more: Any) -> dict[str, Any]:
        return {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.issuer.endpoint.url": self.server.url(),
            "bearer.auth.client.id": "alice",
            "bearer.auth.client.secret": "s3cret",
            **more,
        }

    def _answer(self, asked: Asked) -> Answer:
        if self.answers:
            return self.answers.pop(0)
        self.issued += 1
        self.registry.valid.add(f"Bearer token-{self.issued}")
        fields: dict[str, Any] = {} if self.lifetime is None else {"expires_in": self.lifetime}
        return Answer.of(access_token=f"token-{self.issued}", **fields)


@pytest.fixture
def issuer(registry: Checked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Issuer]:
    made = Issuer(registry)
    monkeypatch.setenv("OTTLA_ALLOWED_URLS", made.server.url())
    with made.server.serving():
        yield made


def test_tokens_of_an_identity_server_are_kept(issuer: Issuer, registry: Checked) -> None:
    more = {
        "bearer.auth.scope": "schemas",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.identity.pool.id": "p",
    }
    with producer(registry, **issuer.settings(**more)) as sends:
        for topic in ("one", "two", "three"):
            sends.send(topic, 1)
    assert registry.sent == ["Bearer token-1"] * 3
    [asked] = issuer.server.asked
    assert asked.headers["Authorization"] == basic("alice:s3cret")
    assert asked.body == "grant_type=client_credentials&scope=schemas"
    headers = registry.server.requests[0][1]
    assert headers["Target-Sr-Cluster" if "Target-Sr-Cluster" in headers else "target-sr-cluster"] == "lsrc-1"
    assert headers["Confluent-Identity-Pool-Id"] == "p"


def test_a_token_is_renewed_before_it_expires(issuer: Issuer, registry: Checked) -> None:
    issuer.lifetime = 100
    with producer(registry, **issuer.settings()) as sends:
        sends.send("one", 1)
        later = time.time() + 81
        with pytest.MonkeyPatch.context() as clock:
            clock.setattr(time, "time", lambda: later)
            sends.send("two", 1)  # does not wait for the next one
            wait_until(lambda: issuer.issued == 2, timeout=20)
            wait_until(no_login_is_fetched, timeout=20)
            sends.send("three", 1)
    assert registry.sent == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_a_token_that_the_registry_has_withdrawn_is_replaced(
    issuer: Issuer, registry: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "NEW", 0.0)
    with producer(registry, **issuer.settings()) as sends:
        sends.send("one", 1)
        registry.valid.clear()
        sends.send("two", 1)
    assert registry.sent == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


def test_a_refusal_of_the_identity_server_names_the_keys(issuer: Issuer, registry: Checked) -> None:
    issuer.answers = [Answer.of(status=401, error="invalid_client", error_description="s3cret is wrong")]
    with producer(registry, **issuer.settings()) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert "status 401, error invalid_client; check the client's id, secret and scope (bearer.auth.*)" in str(error)
    assert "s3cret" not in str(error)
    assert registry.sent == []


def test_a_server_that_is_away_for_a_moment_is_asked_again(issuer: Issuer, registry: Checked) -> None:
    issuer.answers = [Answer(status=503)] * 3
    with producer(registry, **issuer.settings()) as sends:
        sends.send("numbers", 1)
    assert registry.sent == ["Bearer token-1"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (Answer(body=b"x" * (2 << 20)), "more than 1048576 bytes"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}), "set bearer.auth.issuer.endpoint.url to"),
        (Answer.of(access_token="two words"), "invalid token"),
        (Answer.of(access_token="token", expires_in=0), "had expired when it came"),
    ],
)
def test_a_wrong_answer_of_the_identity_server_is_an_error(
    issuer: Issuer, registry: Checked, answer: Answer, words: str
) -> None:
    issuer.answers = [answer] * 20
    with producer(registry, **issuer.settings()) as sends:
        error = cause(sends)
    assert isinstance(error, RegistryAccessError)
    assert words in str(error)
    assert registry.sent == []


def test_an_identity_server_must_be_allowed(issuer: Issuer, registry: Checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_ALLOWED_URLS")
    with pytest.raises(ConfigError, match=r"bearer\.auth\.issuer\.endpoint\.url: http://.*/token is not allowed"):
        producer(registry, **issuer.settings())


def test_the_package_that_fetches_tokens_is_named_if_it_is_missing(
    issuer: Issuer, registry: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.plugins.client_credentials.entry_point", lambda _group, _name: None)
    with pytest.raises(ConfigError, match=r"source=OAUTHBEARER needs .* try: pip install ottla-authenticator-sasl"):
        producer(registry, **issuer.settings())


# Settings


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            {"bearer.auth.credentials.source": "OAUTHBEARER"},
            "needs bearer.auth.issuer.endpoint.url, bearer.auth.client",
        ),
        ({"bearer.auth.credentials.source": "STATIC_TOKEN"}, "STATIC_TOKEN needs bearer.auth.token"),
        ({"bearer.auth.credentials.source": "SASL_OAUTHBEARER_INHERIT"}, "it is not available; write OAUTHBEARER"),
        ({"bearer.auth.credentials.source": "CUSTOM"}, "write a function as bearer.auth.token"),
        ({"bearer.auth.credentials.source": "X"}, "write STATIC_TOKEN or OAUTHBEARER"),
        ({"basic.auth.credentials.source": "SASL_INHERIT"}, "it is not available; write basic.auth.user.info"),
        ({"basic.auth.credentials.source": "USER_INFO"}, "USER_INFO needs basic.auth.user.info"),
        ({"basic.auth.credentials.source": "URL", "basic.auth.user.info": "a:b"}, "URL does not use"),
        ({"bearer.auth.client.id": "alice"}, "write bearer.auth.credentials.source=OAUTHBEARER, too"),
        ({"bearer.auth.token": "t", "basic.auth.user.info": "a:b"}, "cannot both be set"),
        ({"bearer.auth.logical.cluster": "a\r\nb"}, "visible ASCII characters only"),
        ({"bearer.auth.token": lambda name: name}, "it is called without arguments"),
    ],
)
def test_settings_that_do_not_fit_are_refused(registry: Checked, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        producer(registry, **settings)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "a:b"},
        {"bearer.auth.credentials.source": "static_token", "bearer.auth.token": "t"},
        {"basic.auth.credentials.source": "URL"},
    ],
)
def test_javas_names_of_sources_are_accepted(registry: Checked, settings: dict[str, Any]) -> None:
    registry.valid = {basic("a:b"), "Bearer t"}
    if settings == {"basic.auth.credentials.source": "URL"}:
        registry.server.last = says({"id": 7})
    with producer(registry, **settings) as sends:
        sends.send("numbers", 1)
    assert len(registry.server.requests) == 1


def test_the_next_registry_gets_a_login_of_its_own(registry: Checked) -> None:
    registry.valid = {"Bearer second"}
    tokens = iter(["first", "second"])
    with hostile_registry() as away:
        away.last = says({}, status=503)
        settings = {"schema.registry.url": f"{away.address},{registry.server.address}"}
        with producer(registry, bearer_auth_token=lambda: next(tokens), **settings) as sends:
            sends.send("numbers", 1)
        assert away.requests[0][1]["Authorization"] == "Bearer first"
    assert registry.sent == ["Bearer second"]
