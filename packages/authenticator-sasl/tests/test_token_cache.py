"""One token for all logins, renewed before it expires; no login waits while the last one is valid."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.concurrency.single_flight import MAX_RUNNING, SingleFlight
from ottla.errors import AuthenticationError, ConnectionFailedError
from ottla_authenticator_sasl import Token
from ottla_authenticator_sasl.token_cache import LOGIN_WAIT, Retry, TokenCache
from ottla_authenticator_sasl.token_fetch_limit import FetchLimit, Pauses
from ottla_authenticator_sasl.token_refresh_time import RefreshWindow
from token_endpoints import wait_until

REQUEST: ContextVar[str] = ContextVar("REQUEST", default="no request")
NOW = 1_800_000_000.0
NO_PAUSES = Pauses(floor=0.0, longest=0.0)
AT_ONCE = RefreshWindow(factor=0.5, jitter=0.0, min_period=0.0, buffer=0.0)
AT_EXPIRY = RefreshWindow(factor=1.0, jitter=0.0, min_period=0.0, buffer=0.0)


class Clock:
    """The wall clock, moved by hand."""

    def __init__(self) -> None:
        self.now = NOW
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now


class Seconds:
    """The monotonic clock, moved by hand together with the wall clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def __call__(self) -> float:
        return self.clock.now - NOW


class Source:
    """Returns tokens with numbers, or raises the given errors."""

    def __init__(self, clock: Callable[[], float], lifetime: float | None) -> None:
        self.clock = clock
        self.lifetime = lifetime
        self.asked = 0
        self.asked_at: list[float] = []
        self.given = 0
        self.error: BaseException | None = None
        self.dead: threading.Event | None = None
        """The point at which the first fetch hangs."""
        self.open = threading.Event()
        self.open.set()

    def gaps(self) -> list[int]:
        """Seconds between two fetches."""
        return [round(later - earlier) for earlier, later in pairwise(self.asked_at)]

    def fetch(self) -> Token:
        self.asked += 1
        self.asked_at.append(self.clock())
        if self.dead is not None and self.asked == 1:
            assert self.dead.wait(20)
        time.sleep(0)  # lets those in who should wait
        assert self.open.wait(20)
        self.given += 1
        if self.error is not None:
            raise self.error
        ends = None if self.lifetime is None else (self.clock() + self.lifetime) * 1000
        return Token(f"token-{self.given}", ends)


class Kept:
    """A keeper and what it depends on."""

    def __init__(
        self, lifetime: float | None, window: RefreshWindow, timeout: float, limit: float, pauses: Pauses
    ) -> None:
        self.clock = Clock()
        self.source = Source(self.clock, lifetime)
        self.closing = threading.Event()
        self.keeper = TokenCache(
            self.source.fetch,
            source="the test",
            window=window,
            retry=Retry(first=0.001, longest=0.002),
            closing=self.closing,
            clock=self.clock,
            timeout=timeout,
            limit=limit,
            fetch_limit=FetchLimit(pauses, clock=Seconds(self.clock)),
        )

    def value(self) -> str:
        return self.keeper.token().value


@pytest.fixture
def kept() -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def make(
        lifetime: float | None = 1000.0,
        window: RefreshWindow | None = None,
        timeout: float = LOGIN_WAIT,
        limit: float = 20.0,
        pauses: Pauses = NO_PAUSES,
    ) -> Kept:
        made.append(Kept(lifetime, window or RefreshWindow(), timeout, limit, pauses))
        return made[-1]

    yield make
    for each in made:
        each.source.open.set()
        each.keeper.close()
        if each.source.dead is not None:
            each.source.dead.set()
    wait_until(lambda: not any(thread.name.startswith("ottla-token-") for thread in threading.enumerate()))


Maker = Callable[..., Kept]


def no_fetch_runs() -> bool:
    """Whether all fetches have ended, and the cache has their tokens."""
    return not any(thread.name == "ottla-token-fetch" for thread in threading.enumerate())


def test_all_connections_share_a_token(kept: Maker) -> None:
    for _ in range(20):
        one, together = kept(), threading.Barrier(8)

        def ask(one: Kept = one, together: threading.Barrier = together) -> str:
            together.wait(20)
            return one.value()

        with ThreadPoolExecutor(8) as pool:
            asking = [pool.submit(ask) for _ in range(8)]
            assert {each.result(20) for each in asking} == {"token-1"}
        assert one.source.given == 1


def test_an_expired_token_is_never_given(kept: Maker) -> None:
    one = kept(window=AT_EXPIRY)  # else a thread that starts late, on a busy machine, may renew the token before
    one.value()
    one.clock.now += 999.9
    assert one.value() == "token-1"
    one.clock.now += 0.1

    assert one.value() == "token-2"


def test_a_token_without_an_expiry_is_fetched_each_time(kept: Maker) -> None:
    one = kept(None)

    assert [one.value(), one.value()] == ["token-1", "token-2"]


def test_a_token_that_is_already_expired_is_refused(kept: Maker) -> None:
    with pytest.raises(AuthenticationError, match="the token from the test expired"):
        kept(0.0).value()


def test_the_token_is_renewed_in_the_background_before_it_expires(kept: Maker) -> None:
    one = kept(0.05, AT_ONCE)
    one.value()
    one.clock.now += 0.03

    wait_until(lambda: one.source.given > 1)
    wait_until(lambda: one.value() == "token-2")


def test_fetches_do_not_see_the_context_of_the_first_login(kept: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the GIL, from Python 3.14 on, a thread begins with a copy of the context that starts it."""
    seen: list[str] = []
    start, fetch = threading.Thread.start, Source.fetch

    def start_with_context(thread: threading.Thread) -> None:
        run, context = thread.run, copy_context()
        thread.run = lambda: context.run(run)  # type: ignore[method-assign]
        start(thread)

    def fetch_with_context(source: Source) -> Token:
        seen.append(REQUEST.get())
        return fetch(source)

    monkeypatch.setattr(threading.Thread, "start", start_with_context)
    monkeypatch.setattr(Source, "fetch", fetch_with_context)
    one = kept(0.05, AT_ONCE)

    def log_in() -> None:
        REQUEST.set("first request")
        one.value()

    copy_context().run(log_in)
    one.clock.now += 0.03
    wait_until(lambda: one.source.given > 1)

    assert seen[:2] == ["no request"] * 2


def test_no_login_waits_for_a_renewal_while_the_token_is_valid(kept: Maker) -> None:
    one = kept(0.05, AT_ONCE)
    one.value()
    one.source.open.clear()
    one.clock.now += 0.03
    wait_until(lambda: one.source.asked == 2)

    assert one.value() == "token-1"


def test_a_renewal_that_gets_no_thread_begins_with_the_next_token(
    kept: Maker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refuse_renewals(thread: threading.Thread) -> None:
        if thread.name == "ottla-token-refresh":
            raise RuntimeError("can't start new thread")
        start(thread)

    one = kept(0.05, AT_ONCE)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse_renewals)
        tokens = [one.value()]
        one.clock.now += 0.06
        tokens.append(one.value())
    assert tokens == ["token-1", "token-2"]
    [line] = caplog.messages
    assert "no thread could be started to renew the token of the test" in line

    one.clock.now += 0.06
    assert one.value() == "token-3"
    one.clock.now += 0.03  # it has not expired
    wait_until(lambda: one.source.asked == 4)


def test_a_login_that_gets_no_thread_fails_and_the_next_one_fetches(
    kept: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    one = kept(1000.0)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(ConnectionFailedError, match="no thread could be started to get a token from the test"):
            one.value()

    assert one.value() == "token-1"


def test_a_failed_renewal_is_retried_and_logged_once(kept: Maker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    one = kept(0.05, AT_ONCE)
    one.value()
    one.source.error = AuthenticationError("no more")
    one.clock.now += 0.03

    def failed_again() -> bool:
        one.clock.now += 0.01
        return one.source.given >= 4

    wait_until(failed_again)
    one.source.error = None
    one.source.lifetime = 1000.0

    def renewed() -> bool:
        one.clock.now += 0.01  # again and again: a renewal that had begun before may still fail
        return any("was renewed after" in line for line in caplog.messages)

    wait_until(renewed)
    assert [line for line in caplog.messages if "could not be renewed" in line] == [
        "the token of the test could not be renewed, the producer will try again: no more"
    ]
    assert "token-" not in caplog.text


def test_a_login_without_a_token_gets_the_error_of_the_source(kept: Maker) -> None:
    one = kept()
    one.source.error = AuthenticationError("no")

    with pytest.raises(AuthenticationError, match="no"):
        one.value()
    one.source.error = None
    assert one.value() == "token-2"


def test_a_token_that_the_broker_refused_is_not_used_again(kept: Maker) -> None:
    one = kept()
    first = one.keeper.token()
    one.keeper.forget(first)
    second = one.keeper.token()
    one.keeper.forget(first)

    assert second.value == "token-2"
    assert one.keeper.token() is second


def test_a_login_fails_in_time_while_the_source_is_silent(kept: Maker) -> None:
    one = kept(timeout=0.01)
    one.source.open.clear()
    for _ in range(3):
        with pytest.raises(
            ConnectionFailedError, match=r"the test has not returned a token in time; .* within 0\.01 s"
        ):
            one.value()
    one.source.open.set()

    wait_until(no_fetch_runs)
    assert (one.value(), one.source.asked) == ("token-1", 1)


def test_a_login_joins_a_fetch_in_progress(kept: Maker) -> None:
    one = kept()
    one.source.open.clear()
    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(one.value) for _ in range(3)]
        wait_until(lambda: one.source.asked == 1)
        one.source.open.set()

        assert {each.result(20) for each in asking} == {"token-1"}
    assert one.source.asked == 1


def test_a_login_does_not_wait_for_a_fetch_that_timed_out(kept: Maker) -> None:
    one = kept(limit=0.5)
    one.source.dead = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        try:
            assert pool.submit(one.value).result(20).startswith("token-")
            assert one.source.asked >= 2  # on a busy machine, the second one may exceed the limit, too
        finally:
            one.source.dead.set()


def test_a_waiting_login_abandons_a_fetch_that_timed_out(kept: Maker) -> None:
    one = kept(limit=0.5)
    one.source.dead = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        try:
            values = {each.result(20) for each in [pool.submit(one.value) for _ in range(4)]}
            assert values <= {f"token-{number}" for number in range(1, one.source.asked)}
        finally:
            one.source.dead.set()


def test_a_late_result_replaces_no_newer_token(kept: Maker) -> None:
    one = kept(limit=0.5)
    dead = one.source.dead = threading.Event()
    newer = one.value()
    # More than one, where a fetch takes longer than the limit because the machine is busy.
    wait_until(lambda: one.source.given == one.source.asked - 1)
    dead.set()

    wait_until(lambda: one.source.given == one.source.asked)
    wait_until(no_fetch_runs)
    assert newer.startswith("token-")
    assert one.value() != f"token-{one.source.given}"


def test_a_source_that_never_responds_gets_few_threads(kept: Maker) -> None:
    one = kept(timeout=0.02, limit=0.01)
    one.source.open.clear()
    for _ in range(20):
        with pytest.raises(ConnectionFailedError, match="has not returned"):
            one.value()

    wait_until(lambda: one.source.asked == MAX_RUNNING)
    one.source.open.set()
    wait_until(no_fetch_runs)
    assert one.source.given == MAX_RUNNING
    assert one.value().startswith("token-")


def test_a_source_that_ends_its_thread_fails_the_login(kept: Maker) -> None:
    one = kept()
    one.source.error = SystemExit()

    with pytest.raises(ConnectionFailedError, match="the test raised SystemExit"):
        one.value()


def test_close_releases_waiting_logins(kept: Maker) -> None:
    one = kept()
    one.source.open.clear()
    with ThreadPoolExecutor(1) as pool:
        login = pool.submit(one.value)
        wait_until(lambda: one.source.asked == 1)
        one.keeper.close()

        with pytest.raises(ConnectionFailedError, match="the producer was closed"):
            login.result(20)
    with pytest.raises(ConnectionFailedError, match="the producer was closed"):
        one.value()


def test_a_refused_token_is_forgotten_while_the_next_one_is_fetched(kept: Maker) -> None:
    one = kept(0.05, AT_ONCE)
    first = one.keeper.token()
    one.source.open.clear()
    one.clock.now += 0.03
    wait_until(lambda: one.source.asked == 2)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(one.keeper.forget, first).result(20)
        one.source.open.set()

    assert one.value() == "token-2"


def test_a_renewal_ends_with_the_producer_even_if_the_source_hangs(kept: Maker) -> None:
    one = kept(0.05, AT_ONCE)
    one.value()
    one.source.open.clear()
    one.clock.now += 0.03
    wait_until(lambda: one.source.asked == 2)
    one.keeper.close()

    wait_until(lambda: all(each.name != "ottla-token-refresh" for each in threading.enumerate()))


def test_a_renewal_that_timed_out_is_started_again(kept: Maker, caplog: pytest.LogCaptureFixture) -> None:
    one = kept(0.05, AT_ONCE, limit=0.05)
    one.value()
    one.source.open.clear()
    one.clock.now += 0.03

    def asked_again() -> bool:
        one.clock.now += 0.001
        return one.source.asked > 2

    wait_until(asked_again)
    said = "could not be renewed, the producer will try again: the test has not returned"
    wait_until(lambda: said in caplog.text)  # the thread that began the next one may not have written it yet


def test_nothing_is_renewed_after_close(kept: Maker) -> None:
    one = kept(0.05, AT_ONCE)
    one.value()
    one.keeper.close()
    one.keeper.close()
    one.clock.now += 0.03

    wait_until(lambda: not any(thread.name == "ottla-token-refresh" for thread in threading.enumerate()))
    assert one.source.given == 1


@pytest.mark.rule("security.identity.pace")
def test_lifetimes_of_milliseconds_do_not_set_the_rate_of_fetches(kept: Maker) -> None:
    one = kept(0.02, pauses=Pauses())
    for _ in range(3000):  # 30 s with a login in each 10 ms
        with contextlib.suppress(ConnectionFailedError):
            one.value()
        one.clock.now += 0.01

    assert one.source.gaps() == [1, 2, 4, 8, 10]


@pytest.mark.rule("security.identity.pace")
def test_expired_tokens_of_the_source_do_not_set_the_rate_of_fetches(kept: Maker) -> None:
    one = kept(0.0, pauses=Pauses())
    for _ in range(3000):  # 30 s with a login in each 10 ms
        with pytest.raises(AuthenticationError, match="the token from the test expired"):
            one.value()
        one.clock.now += 0.01
    assert one.source.gaps() == [1, 2, 4, 8, 10]
    one.source.lifetime = 1000.0
    one.clock.now += 10

    assert one.value() == "token-7"


@pytest.mark.rule("security.identity.pace")
def test_renewals_with_expired_tokens_keep_the_rate_of_fetches(kept: Maker, caplog: pytest.LogCaptureFixture) -> None:
    one = kept(2.2, AT_ONCE, pauses=Pauses())
    one.value()
    one.source.lifetime = -1.0
    one.clock.now += 1.1
    wait_until(lambda: "could not be renewed" in caplog.text)  # and the next one has its time
    assert one.source.asked == 2
    one.clock.now += 0.5
    looks = one.clock.looks
    wait_until(lambda: one.clock.looks > looks + 2)  # of the thread that renews
    assert one.source.asked == 2
    one.clock.now += 0.5

    wait_until(lambda: one.source.asked == 3)
    assert one.value() == "token-1"


@pytest.mark.rule("security.identity.pace")
def test_a_login_between_short_tokens_is_refused_with_lifetime_and_time(kept: Maker) -> None:
    one = kept(0.02, pauses=Pauses())
    assert one.value() == "token-1"
    one.clock.now += 0.01
    assert one.value() == "token-1"  # it is good for 10 ms more
    one.clock.now += 0.24

    with pytest.raises(ConnectionFailedError) as caught:
        one.value()
    assert str(caught.value) == (
        "there is no valid token: the next one is fetched from the test in 0.8 s, because the lifetime of its last "
        "token was only 0.020 s; use tokens that brokers accept and that last a minute or longer, and check this "
        "machine's clock"
    )
    assert one.source.asked == 1


@pytest.mark.rule("security.identity.pace")
def test_short_tokens_are_renewed_in_the_background_no_sooner(kept: Maker) -> None:
    one = kept(0.02, pauses=Pauses())
    one.value()
    one.clock.now += 0.99
    looks = one.clock.looks
    wait_until(lambda: one.clock.looks > looks + 2)  # of the thread that renews
    assert one.source.asked == 1
    one.clock.now += 0.01

    wait_until(lambda: one.source.given == 2)


def test_short_tokens_are_warned_about_once_an_hour(kept: Maker, caplog: pytest.LogCaptureFixture) -> None:
    one = kept(0.02, pauses=Pauses())
    for _ in range(400):
        with contextlib.suppress(ConnectionFailedError):
            one.value()
        one.clock.now += 10
    lines = [line for line in caplog.messages if "returned a token" in line]

    assert len(lines) == 2
    assert lines[0].startswith(
        "the test returned a token with a lifetime of only 0.020 s; the next one is fetched after 1.0 s"
    )


def test_a_long_lived_token_ends_the_pauses(kept: Maker) -> None:
    one = kept(0.02, pauses=Pauses())
    one.value()
    one.clock.now += 1
    one.source.lifetime = 2.0
    one.value()
    one.clock.now += 2

    assert one.value().startswith("token-")


@pytest.mark.rule("security.identity.pace")
def test_the_first_refused_token_is_replaced_at_once_and_others_later(kept: Maker) -> None:
    one = kept(pauses=Pauses())
    for _ in range(3000):  # 30 s with a login in each 10 ms, all refused
        one.keeper.forget(one.keeper.token())
        one.clock.now += 0.01

    assert one.source.gaps() == [0, 1, 2, 4, 8, 10]


def test_a_token_that_one_broker_refuses_is_used_for_the_others(kept: Maker) -> None:
    one = kept(pauses=Pauses())
    one.keeper.forget(one.keeper.token())
    second = one.keeper.token()
    one.keeper.forget(second)

    assert one.keeper.token() is second


def test_refused_tokens_without_an_expiry_do_not_delay_the_next_login(kept: Maker) -> None:
    """Each login has one of its own anyway, so there is nothing else that it could use meanwhile."""
    one = kept(None, pauses=Pauses())
    for _ in range(5):
        one.keeper.forget(one.keeper.token())

    assert one.value() == "token-6"


@pytest.mark.rule("security.sasl.refused")
def test_a_refused_token_is_used_for_other_brokers_if_the_source_fails(
    kept: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    one = kept(pauses=Pauses())
    token = one.keeper.token()
    one.source.error = ConnectionFailedError("the source is down")
    one.keeper.forget(token)

    assert [one.keeper.token(), one.keeper.token()] == [token, token]
    assert [line for line in caplog.messages if "the source is down" in line] == [
        "a broker refused the token of the test, and fetching the next one failed; until that succeeds logins use the "
        "refused one, which other brokers may accept: the source is down"
    ]
    one.source.error = None
    assert one.keeper.token() is not token


@pytest.mark.rule("security.sasl.refused")
def test_a_refused_token_is_used_while_earlier_fetches_hang(kept: Maker) -> None:
    one = kept(timeout=0.2, limit=0.01)
    token = one.keeper.token()
    one.source.open.clear()
    one.keeper.forget(token)

    assert [one.keeper.token() for _ in range(MAX_RUNNING + 1)] == [token] * (MAX_RUNNING + 1)


def test_a_token_accepted_for_a_while_is_replaced_at_once(kept: Maker) -> None:
    one = kept(pauses=Pauses())
    for number in range(1, 20):
        token = one.keeper.token()
        assert token.value == f"token-{number}"
        one.clock.now += 11
        one.keeper.forget(token)

    for _ in range(300):  # 3 s in which every token is refused
        one.keeper.forget(one.keeper.token())
        one.clock.now += 0.01
    assert one.source.gaps()[-2:] == [11, 1], "what was refused long ago does not count"


def test_a_login_after_refusals_reports_them_once_the_token_expired(kept: Maker) -> None:
    one = kept(7.0, pauses=Pauses(floor=5.0, longest=10.0))
    for wait in (0, 5, 0):
        one.keeper.forget(one.keeper.token())
        one.clock.now += wait
    one.closing.set()  # no renewal
    one.clock.now += 8

    with pytest.raises(ConnectionFailedError, match="brokers refused its last tokens, and the newest one has expired"):
        one.value()


def test_a_login_joins_a_renewal_at_any_rate(kept: Maker) -> None:
    one = kept(0.02, pauses=Pauses())
    one.value()
    one.source.open.clear()
    one.clock.now += 1
    wait_until(lambda: one.source.asked == 2)
    with ThreadPoolExecutor(1) as pool:
        login = pool.submit(one.value)
        one.source.open.set()

        assert login.result(20) == "token-2"


def test_a_disconnect_does_not_count_against_a_new_token(kept: Maker) -> None:
    one = kept(pauses=Pauses())
    first = one.keeper.token()
    for _ in range(59):
        one.keeper.forget(one.keeper.token(), certain=False)
        one.clock.now += 1
    assert one.keeper.token() is first
    one.clock.now += 2
    one.keeper.forget(first, certain=False)

    assert one.value() == "token-2"


@pytest.mark.parametrize(
    ("lifetime", "chance", "due"),
    [
        pytest.param(3600.0, 0.0, 2880.0, id="after 80 %"),
        pytest.param(3600.0, 1.0, 3060.0, id="after 85 %"),
        pytest.param(1000.0, 1.0, 700.0, id="not in the buffer at the end"),
        pytest.param(361.0, 0.0, 61.0, id="the buffer is longer than what it leaves"),
        pytest.param(300.0, 0.0, 240.0, id="no room for either"),
        pytest.param(10.0, 1.0, 8.5, id="short"),
    ],
)
def test_a_token_is_due_at_the_same_time_as_in_java(lifetime: float, chance: float, due: float) -> None:
    found = RefreshWindow().due(now=NOW, issued_at=None, expires_at=NOW + lifetime, chance=chance)

    assert found - NOW == pytest.approx(due, abs=0.001)


@pytest.mark.parametrize(
    ("age", "left", "due"),
    [
        pytest.param(1800, 1800, 1080, id="half its time is over"),
        pytest.param(9000, 1000, 60, id="due already, but not before the least period"),
        pytest.param(-99, 3600, 2880, id="issued in the future"),
    ],
)
def test_an_old_token_is_due_relative_to_its_issue_time(age: float, left: float, due: float) -> None:
    found = RefreshWindow().due(now=NOW, issued_at=NOW - age, expires_at=NOW + left, chance=0)

    assert found - NOW == pytest.approx(due, abs=0.001)


@given(
    st.floats(0.5, 1), st.floats(0, 0.25), st.floats(0, 900), st.floats(0, 3600), st.floats(0, 1), st.floats(0.1, 1e6)
)
def test_a_renewal_is_never_due_in_the_past(
    factor: float, jitter: float, least: float, buffer: float, chance: float, lifetime: float
) -> None:
    window = RefreshWindow(factor=factor, jitter=jitter, min_period=least, buffer=buffer)

    assert window.due(now=NOW, issued_at=None, expires_at=NOW + lifetime, chance=chance) >= NOW


def test_waits_double_up_to_a_maximum() -> None:
    retry = Retry(first=0.1, longest=1.0)

    assert [retry.wait(failures) for failures in (1, 2, 3, 4, 5, 6, 10_000)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]


def test_each_login_that_waits_gets_an_error_of_its_own() -> None:
    def fetch() -> Token:
        raise ConnectionFailedError("the source is down")

    flights = SingleFlight(fetch, name="fetch", source="the source", limit=10.0)
    joined = flights.join(needless=lambda: False)
    assert joined is not None
    flight, _new = joined
    assert flight.wait(10.0)
    errors: list[BaseException] = []
    for login in ("first", "second"):
        with pytest.raises(ConnectionFailedError, match="the source is down") as caught:
            flight.result()
        caught.value.add_note(login)
        errors.append(caught.value)

    assert [error.__notes__ for error in errors] == [["first"], ["second"]]
