"""A transport that breaks a promise fails the test that asks for it, with words that say what to change."""

from __future__ import annotations

import socket

import pytest

import wrong_layers as wrong
from ottla.interfaces import Transport
from ottla_testkit.conformance import TransportConformance
from ottla_testkit.conformance.link import Link
from ottla_transport_plaintext import PlaintextLayer

PATIENCE = 0.3


class Conformance(TransportConformance):
    """Called by hand here, so that its failures can be looked at."""

    patience = PATIENCE


def broken_promise(transport: Transport, promise: str) -> str:
    """What the test *promise* says of the transport."""
    suite = Conformance()
    made: list[Link] = []

    def link(*, sip: int = 0) -> Link:
        made.append(Link(transport, _serve, host="kafka", port=9092, patience=PATIENCE, sip=sip))
        return made[-1]

    test = getattr(suite, promise)
    wanted = test.__code__.co_varnames[1 : test.__code__.co_argcount]
    fixtures = {"links": link, "transport": transport}
    try:
        with pytest.raises((AssertionError, pytest.fail.Exception)) as caught:
            test(**{name: fixtures[name] for name in wanted})
    finally:
        for each in made:
            _dispose(each)
    return str(caught.value)


def _serve(sock: socket.socket) -> socket.socket:
    return sock


def _dispose(link: Link) -> None:
    try:
        link.close()
    except AssertionError as error:
        print(f"and {error}")


@pytest.mark.parametrize(
    ("kind", "promise", "words"),
    [
        (wrong.WaitsInOpen, "test_a_layer_has_the_whole_contract", "open made the socket wait"),
        (wrong.WaitsForBytes, "test_nothing_to_read_is_none_and_not_the_end", "read_into did not come back"),
        (wrong.WaitsForRoom, "test_a_full_socket_takes_nothing_and_waits_for_nobody", "write did not come back"),
        (
            wrong.NeverReady,
            "test_a_handshake_goes_on_whenever_the_socket_says_so",
            "any more; ready: False",
        ),
        (wrong.WaitsForNobodyKnowsWhat, "test_a_handshake_that_waits_says_what_it_waits_for", "interest() is NONE"),
        (wrong.DropsWhatFollows, "test_words_that_come_with_the_end_of_the_handshake_are_not_lost", "read so far: 0"),
        (wrong.ChokesOnStrangers, "test_a_stranger_is_told_by_an_error_and_no_other_way", "handshake raised KeyError"),
        (wrong.SaysMoreThanItTook, "test_lots_of_bytes_go_both_ways_at_once", "nothing moves any more"),
        (wrong.SaysMoreThanItTook, "test_a_full_socket_takes_nothing_and_waits_for_nobody", "nothing moves any more"),
        (wrong.TakesTwice, "test_chunks_of_any_kind_and_size_go_out_in_order", "other bytes than"),
        (wrong.EatsTheList, "test_a_write_and_a_flush_are_enough", "write changed the list of chunks"),
        (wrong.Queueing, "test_only_so_much_is_taken_ahead_of_the_socket", "it has no limit"),
        (wrong.FlushesInWords, "test_a_flush_is_true_only_when_the_socket_has_everything", "flush was True, but"),
        (wrong.LosesWhatIsFlushed, "test_a_write_and_a_flush_are_enough", "flush was True, but"),
        (wrong.ReadsAhead, "test_bytes_that_the_layer_holds_are_announced", "may_read(): False"),
        (wrong.TakesNothingForTheEnd, "test_nothing_to_read_is_none_and_not_the_end", "has to say None"),
        (wrong.NeverEnds, "test_the_end_comes_after_all_bytes_and_stays", "the end that the peer made: nothing moves"),
        (wrong.NeverEnds, "test_an_end_at_any_place_of_the_handshake_is_told", "was not told"),
        (wrong.WritesBesideTheBuffer, "test_bytes_are_read_whatever_the_buffer", "wrote beside the buffer"),
        (wrong.AlwaysWantsToWrite, "test_a_connection_without_work_lets_the_selector_sleep", "the selector spins"),
        (wrong.TakesTheSocketAway, "test_nothing_to_read_is_none_and_not_the_end", "closed or detached"),
        (wrong.ClosesOnce, "test_closing_works_at_any_time_and_again", "close raised RuntimeError"),
        (wrong.SaysGoodbyeToTheDead, "test_closing_works_at_any_time_and_again", "close raised OSError"),
        (wrong.LeavesTheSocketOpen, "test_closing_works_at_any_time_and_again", "left the socket open"),
        (wrong.HangsUpHard, "test_bytes_that_were_flushed_arrive_before_the_end", "took away bytes"),
        (wrong.SharesItsBuffer, "test_connections_know_nothing_of_each_other", "another connection"),
        (wrong.IgnoresResets, "test_writing_to_a_peer_that_is_gone_fails_as_a_connection_does", "as if it were there"),
    ],
)
def test_a_broken_promise_is_told(kind: type[PlaintextLayer], promise: str, words: str) -> None:
    assert words in broken_promise(wrong.Wrong(kind), promise)


def test_a_transport_has_to_know_where_it_connects() -> None:
    assert "targets gave" in broken_promise(wrong.Moody(), "test_it_says_where_to_connect_and_says_so_again")
