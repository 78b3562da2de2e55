"""Names and passwords from functions: called for each login, in bounded time; their errors contain no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from broker_on_a_socket import SocketBroker

from machine import wait_until
from ottla import Producer
from ottla.errors import AuthenticationError, ConnectionFailedError, NetworkError, printable
from ottla.interfaces import Authenticator, Mechanism
from ottla.plugins.config_references import read_draft
from ottla.plugins.registry import Registry
from ottla.plugins.selection import choose
from ottla_authenticator_sasl import credentials
from ottla_authenticator_sasl.credentials import CallbackCredentials, UserPassword
from ottla_authenticator_sasl.plain import PlainMechanism
from ottla_testkit.simulation import SimulatedCluster, SimulatedLogin
from sasl_plugins import mechanism, problem

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MODULES = {"PLAIN": "PlainLoginModule"} | dict.fromkeys(MECHANISMS[1:], "ScramLoginModule")
SECRET = "s3cret-of-alice"


def counted() -> Callable[[], str]:
    """A password that is another one each time."""
    numbers = iter(range(1, 100))
    return lambda: f"{SECRET}-{next(numbers)}"


def first(made: Mechanism) -> bytes:
    """The first message of a new login."""
    return made.authenticator("kafka", 9092).start()


def refusal(made: Mechanism) -> NetworkError:
    """The error of a login that cannot begin."""
    with pytest.raises(NetworkError) as caught:
        first(made)
    return caught.value


def test_a_password_function_is_called_at_each_login() -> None:
    made = mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": counted()})

    assert [first(made) for _ in range(3)] == [f"\0alice\0{SECRET}-{number}".encode() for number in (1, 2, 3)]


def test_user_and_password_may_change_together() -> None:
    pairs = iter([("alice", "one"), ["bob", "two"]])
    made = mechanism("PLAIN", {"sasl.credentials.provider": lambda: next(pairs)})

    assert [first(made), first(made)] == [b"\0alice\0one", b"\0bob\0two"]
    assert getattr(made, "identity") == "bob"  # noqa: B009 - not in the contract


def test_the_jaas_config_may_come_from_a_function() -> None:
    passwords = iter(["one", "two"])
    made = mechanism(
        "PLAIN",
        {"sasl.jaas.config": lambda: f'x.PlainLoginModule required username="alice" password="{next(passwords)}";'},
    )

    assert [first(made), first(made)] == [b"\0alice\0one", b"\0alice\0two"]


def needs_a_setting(setting: str) -> str:
    """As confluent-kafka calls `oauth_cb`."""
    return setting


class Provider:
    """An object that is called, and whose repr has a secret."""

    def __call__(self, setting: str, *, timeout: float) -> str:
        return setting

    def __repr__(self) -> str:
        return f"Provider({SECRET})"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (needs_a_setting, "needs_a_setting needs setting"),
        (Provider(), "Provider needs setting, timeout"),
        (functools.partial(lambda secret, setting: secret, SECRET), "partial needs setting"),
    ],
)
@pytest.mark.parametrize("key", ["sasl.username", "sasl.password", "sasl.credentials.provider", "sasl.jaas.config"])
def test_a_function_that_needs_arguments_is_refused_at_once(key: str, function: Any, said: str) -> None:
    known = {"sasl.username": {"sasl.password": "x"}, "sasl.password": {"sasl.username": "alice"}}.get(key, {})
    error = problem("PLAIN", {**known, key: function})

    assert key in error
    assert f"it is called without arguments, and {said}: define it as f()" in error
    assert SECRET not in error


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(needs_a_setting, SECRET),
        lambda setting=SECRET: setting,
        lambda *settings, **more: SECRET,
        {SECRET}.pop,
        functools.wraps(needs_a_setting)(lambda: SECRET),
    ],
)
def test_a_function_that_can_be_called_without_arguments_is_taken(function: Any) -> None:
    assert first(mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": function})).endswith(SECRET.encode())


def test_annotations_of_a_function_are_not_evaluated() -> None:
    """Since Python 3.14 they may name what only a type checker imports; before, a program has to quote it."""
    name = "SecretText" if sys.version_info >= (3, 14) else "'SecretText'"
    program: dict[str, Any] = {"SECRET": SECRET}
    exec(compile(f"def password() -> {name}: return SECRET", "a_program.py", "exec", dont_inherit=True), program)
    given = {"sasl.username": "alice", "sasl.password": program["password"]}

    assert first(mechanism("PLAIN", given)).endswith(SECRET.encode())


def test_an_async_function_is_awaited() -> None:
    async def password() -> str:
        await asyncio.sleep(0)
        return SECRET

    assert first(mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": password})).endswith(SECRET.encode())


@pytest.mark.parametrize("name", MECHANISMS)
def test_functions_are_not_called_before_the_first_login(name: str) -> None:
    asked: list[int] = []

    def password() -> str:
        asked.append(1)
        return SECRET

    made = mechanism(name, {"sasl.username": "alice", "sasl.password": password})

    assert asked == []
    first(made)
    assert asked == [1]


@pytest.mark.parametrize("name", MECHANISMS)
def test_functions_are_never_called_on_the_io_thread(name: str) -> None:
    threads: list[str] = []

    def password() -> str:
        threads.append(threading.current_thread().name)
        return SECRET

    made = mechanism(name, {"sasl.username": "alice", "sasl.password": password})
    first(made)

    assert made.blocking
    assert threads == ["ottla-credentials"]


def test_fixed_credentials_need_no_thread() -> None:
    assert not mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": SECRET}).blocking


def test_a_scram_proof_is_made_with_the_password_of_its_login() -> None:
    rfc = {"sasl.username": "user", "sasl.password": counted()}
    made = mechanism("SCRAM-SHA-256", rfc)
    proofs = []
    for _ in range(2):
        exchange = made.authenticator("kafka", 9092)
        nonce = exchange.start().decode().partition("r=")[2]
        step = exchange.challenge(f"r={nonce}x,s=QSXCR+Q6sek8bf92,i=4096".encode())
        assert step.reply is not None
        proofs.append(vars(exchange)["_mechanism"]._keys.client)

    assert proofs[0] != proofs[1]


# References of config.providers


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "kafka.properties"
    file.write_text("user=alice\npassword=one\nbytes=\\u0000\n")
    return file


def by_reference(name: str, settings: dict[str, str]) -> Mechanism:
    """The mechanism as a producer makes it."""
    registry = Registry()
    given = {"bootstrap.servers": "k:1", "security.protocol": "SASL_SSL", "sasl.mechanism": name, **settings}
    _config, plugins = choose(read_draft({**given, "config.providers": "file"}, registry=registry), registry)
    assert plugins.mechanism is not None
    return plugins.mechanism


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.username": "${file:FILE:user}", "sasl.password": "${file:FILE:password}"},
        {"sasl.username": "alice", "sasl.password": "${file:FILE:password}"},
        {"sasl.jaas.config": 'PlainLoginModule required username="alice" password="${file:FILE:password}";'},
    ],
)
def test_a_referenced_password_is_read_again_at_each_login(properties: Path, settings: dict[str, str]) -> None:
    made = by_reference("PLAIN", {key: value.replace("FILE", str(properties)) for key, value in settings.items()})
    before = first(made)
    properties.write_text("user=alice\npassword=two\n")

    assert (before, first(made)) == (b"\0alice\0one", b"\0alice\0two")
    assert made.blocking  # a file may be on another machine


def test_an_unreadable_referenced_password_fails_only_its_login(properties: Path) -> None:
    made = by_reference("PLAIN", {"sasl.username": "alice", "sasl.password": f"${{file:{properties}:password}}"})
    properties.rename(properties.with_suffix(".away"))
    raised = refusal(made)
    properties.with_suffix(".away").rename(properties)

    assert type(raised) is ConnectionFailedError
    assert "sasl.password cannot be read again" in str(raised)
    assert "No such file or directory" in str(raised)
    assert first(made) == b"\0alice\0one"


# What goes wrong


def raising(error: BaseException) -> Callable[[], Any]:
    def function() -> Any:
        raise error

    return function


@pytest.mark.parametrize("key", ["sasl.password", "sasl.credentials.provider", "sasl.jaas.config"])
@pytest.mark.parametrize(
    ("error", "becomes", "reported"),
    [
        (ValueError(SECRET), AuthenticationError, "raised ValueError (" + __file__),
        (OSError(SECRET), ConnectionFailedError, "could not fetch"),
        (AuthenticationError("the vault is sealed"), AuthenticationError, "the vault is sealed"),
        (ConnectionFailedError("the vault is away"), ConnectionFailedError, "the vault is away"),
        (SystemExit(SECRET), ConnectionFailedError, "SystemExit"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_of_a_function_is_reported_by_type_and_location(
    key: str, error: BaseException, becomes: type[NetworkError], reported: str
) -> None:
    settings = {key: raising(error)} | ({"sasl.username": "alice"} if key == "sasl.password" else {})
    raised = refusal(mechanism("PLAIN", settings))

    assert type(raised) is becomes
    assert reported in str(raised)
    assert SECRET not in str(raised)


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        (lambda: None, "is of the type NoneType; it must be a string"),
        (lambda: SECRET.encode(), "is of the type bytes; it must be a string"),
        (lambda: "", "neither may be empty"),
        (lambda: SECRET + "\0", "a NUL character cannot be part of a name or a password"),
        (lambda: SECRET + "\ud800", "a lone surrogate cannot be encoded as UTF-8"),
    ],
)
def test_a_result_that_is_not_a_password_is_refused(given: Callable[[], Any], reported: str) -> None:
    raised = refusal(mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": given}))

    assert type(raised) is AuthenticationError
    assert reported in str(raised)
    assert SECRET not in str(raised)


@pytest.mark.parametrize("given", [SECRET, ("alice",), ("alice", SECRET, "x"), None, 5])
def test_a_result_that_is_not_a_pair_is_refused(given: object) -> None:
    raised = refusal(mechanism("PLAIN", {"sasl.credentials.provider": lambda: given}))

    assert "instead of a pair" in str(raised)
    assert SECRET not in str(raised)


def test_a_wrong_jaas_config_of_a_function_is_not_quoted() -> None:
    raised = refusal(
        mechanism("PLAIN", {"sasl.jaas.config": lambda: f'x.PlainLoginModule required password="{SECRET}'})
    )

    assert "the quote that begins at" in str(raised)
    assert SECRET not in str(raised)


@pytest.mark.parametrize(
    "settings",
    [
        {"sasl.username": "alice", "sasl.credentials.provider": lambda: ("a", "b")},
        {"sasl.jaas.config": "x", "sasl.credentials.provider": lambda: ("a", "b")},
        {"sasl.jaas.config": lambda: "x", "sasl.password": lambda: "b"},
    ],
)
def test_two_sources_of_a_password_are_refused(settings: dict[str, Any]) -> None:
    assert "are both given; leave one out" in problem("PLAIN", settings)


def test_a_password_only_function_requires_a_user_name() -> None:
    assert "needs sasl.username and sasl.password" in problem("PLAIN", {"sasl.password": lambda: SECRET})


# Bounded time


@contextlib.contextmanager
def hanging(timeout: float) -> Iterator[tuple[CallbackCredentials, threading.Event, list[int]]]:
    """Credentials whose function hangs until the event is set; the list has its calls."""
    release, calls = threading.Event(), []

    def make() -> UserPassword:
        calls.append(1)
        release.wait(30)
        return UserPassword(name="alice", password=SECRET)

    asked = CallbackCredentials(make, keys="sasl.password", identity="alice", timeout=timeout)
    try:
        yield asked, release, calls
    finally:
        release.set()
        asked.close()


def first_result(asked: CallbackCredentials) -> UserPassword:
    """The result of the first call in time: on a busy machine, one that does not hang may be late, too."""
    while True:
        with contextlib.suppress(ConnectionFailedError):
            return asked.current()


def test_a_function_that_hangs_is_abandoned_with_a_clear_error() -> None:
    with hanging(timeout=0.05) as (asked, _release, _calls), pytest.raises(ConnectionFailedError) as caught:
        asked.current()

    assert "sasl.password: the function returned no result within 0.05 s" in str(caught.value)
    assert credentials.FUNCTION_TIMEOUT < 10.0  # socket.connection.setup.timeout.ms


def test_a_later_login_does_not_wait_for_a_function_that_hangs() -> None:
    with hanging(timeout=0.05) as (asked, release, calls):
        with pytest.raises(ConnectionFailedError):
            asked.current()
        release.set()

        assert first_result(asked).name == "alice"
        assert len(calls) >= 2


def test_a_function_that_always_hangs_takes_few_threads() -> None:
    with hanging(timeout=0.01) as (asked, _release, calls):
        for _ in range(20):
            with pytest.raises(ConnectionFailedError) as caught:
                asked.current()

        assert len(calls) <= 4
        assert "sasl.password has not returned a login in time" in str(caught.value)


@pytest.mark.rule("security.sasl.shared")
def test_logins_that_began_before_a_call_ended_share_its_result() -> None:
    calls = counted()
    asked = CallbackCredentials(
        lambda: UserPassword(name="alice", password=calls()), keys="sasl.password", identity="alice"
    )
    early = [asked.request() for _ in range(5)]
    shared = {login().password.reveal() for login in early}  # one after the other, as on one thread
    later = asked.request()().password.reveal()
    asked.close()

    assert shared == {f"{SECRET}-1"}
    assert later == f"{SECRET}-2"


@pytest.mark.rule("security.sasl.shared")
def test_logins_that_began_before_a_call_failed_share_its_error() -> None:
    calls: list[int] = []

    def make() -> UserPassword:
        calls.append(1)
        raise ConnectionFailedError(f"attempt {len(calls)}")

    asked = CallbackCredentials(make, keys="sasl.password", identity="alice")
    early = [asked.request() for _ in range(3)]
    for login in early:
        with pytest.raises(ConnectionFailedError, match="attempt 1"):
            login()
    asked.close()


@pytest.mark.rule("security.sasl.shared")
def test_a_login_waits_five_seconds_in_all_for_thread_and_function(monkeypatch: pytest.MonkeyPatch) -> None:
    with hanging(timeout=5.0) as (asked, _release, calls):
        began = time.monotonic()
        waiting = asked.request()
        monkeypatch.setattr(time, "monotonic", lambda: began + 5.1)  # it has waited for a thread so long
        with pytest.raises(ConnectionFailedError, match="the function returned no result within 5 s"):
            waiting()

        assert len(calls) <= 1


@pytest.mark.rule("security.sasl.shared")
def test_logins_of_several_brokers_call_a_slow_function_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimulatedCluster.of(1, 2, 3, 4, 5)
    cluster.create("t", *cluster.brokers)
    announced: list[int] = []
    calls: list[int] = []
    ordinary = PlainMechanism.authenticator

    def authenticator(plain: PlainMechanism, host: str, port: int) -> Authenticator:
        exchange = ordinary(plain, host, port)
        announced.append(port)
        return exchange

    def pair() -> tuple[str, str]:
        calls.append(1)
        if len(calls) == 2:  # the first one was for the bootstrap server, which is one of the brokers
            wait_until(lambda: len(announced) == 5, timeout=20.0)
        return "alice", SECRET

    monkeypatch.setattr(PlainMechanism, "authenticator", authenticator)
    with contextlib.ExitStack() as stack:
        for broker in cluster.brokers.values():
            broker.require(SimulatedLogin(users={"alice": SECRET}, mechanisms=["PLAIN"]))
            host, port = stack.enter_context(SocketBroker(broker).serving()).rsplit(":", 1)
            broker.address = (host, int(port))
        producer = stack.enter_context(
            Producer(
                {
                    "bootstrap.servers": f"{host}:{port}",
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.allow.cleartext.credentials": "true",
                    "sasl.credentials.provider": pair,
                }
            )
        )
        deliveries = [producer.send("t", b"one", partition=number) for number in range(5)]
        for delivery in deliveries:
            delivery.result(20.0)

    assert len(calls) == 2


def test_close_releases_a_waiting_login() -> None:
    with hanging(timeout=30.0) as (asked, _release, calls):
        reported: list[BaseException] = []

        def wait() -> None:
            try:
                asked.current()
            except ConnectionFailedError as error:
                reported.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        while not calls:
            threading.Event().wait(0.001)
        asked.close()
        thread.join(10)

        assert not thread.is_alive()
        assert [str(error) for error in reported] == ["the producer was closed before sasl.password returned a login"]


# Secrets


def test_a_password_of_a_function_is_masked_if_a_broker_echoes_it() -> None:
    password = "quite-another-Secret-7"
    made = mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": lambda: password})
    first(made)

    assert printable(f"who is {password}?") == "who is ***?"


def test_a_login_that_is_not_the_newest_masks_its_password() -> None:
    passwords = iter(["quite-another-Secret-7", "Secret-of-the-next-login-8"])
    made = mechanism("PLAIN", {"sasl.username": "alice", "sasl.password": lambda: next(passwords)})
    exchange = made.authenticator("localhost", 9092)  # of one connection, whose broker has not answered yet
    exchange.start()
    first(made)

    assert printable("who is quite-another-Secret-7?") == "who is ***?"
    assert exchange.challenge(b"").done
