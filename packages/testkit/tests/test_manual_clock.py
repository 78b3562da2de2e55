import pytest

from ottla_testkit.manual_clock import ManualClock


def test_time_stands_still_until_it_is_advanced() -> None:
    clock = ManualClock(5.0)

    assert [clock(), clock()] == [5.0, 5.0]

    clock.advance(0.25)

    assert clock() == 5.25


def test_time_never_goes_back() -> None:
    clock = ManualClock()

    with pytest.raises(ValueError, match="cannot go back"):
        clock.advance(-1)

    assert clock() == 0.0
