from __future__ import annotations

import gc

import pytest

from limberjack_lab.bench import clock
from limberjack_lab.bench.clock import Contender, race, until_long


@pytest.fixture
def ticks(monkeypatch):
    """A clock that only the contenders move."""
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clock.time, "thread_time", lambda: 0.5 * now[0])
    return now


def test_contenders_take_turns(ticks):
    """Samples alternate between the contenders, so that a drift of the machine hits all alike."""
    seen = []

    def work(name, seconds):
        def call():
            seen.append(name)
            ticks[0] += seconds

        return call

    race([Contender("a", work("a", 0.01)), Contender("b", work("b", 0.02))], seconds=0.0, rounds=3)
    assert seen[-6:] == ["a", "b"] * 3


def test_times_are_the_best_per_unit_on_both_clocks(ticks):
    """The least sample counts, divided by the units of a call; preparing is not timed."""
    lengths = iter([9.0, 8.0, 0.04, 0.02, 0.06])
    prepared = []

    def call():
        ticks[0] += next(lengths)

    def prepare():
        prepared.append(1)
        ticks[0] += 100.0

    best = race([Contender("a", call, units=10, prepare=prepare)], seconds=0.0, rounds=3)["a"]
    assert best.wall == pytest.approx(0.002)
    assert best.cpu == pytest.approx(0.001)
    assert len(prepared) == 5


def test_a_call_that_needs_preparing_is_made_once_per_sample(ticks):
    """However short, each call of such a contender follows its preparation."""
    seen = []

    def call():
        seen.append("call")
        ticks[0] += 1e-6

    race([Contender("a", call, prepare=lambda: seen.append("prepare"), once=True)], seconds=0.0, rounds=3)
    assert seen == ["prepare", "call"] * 5


def test_short_calls_are_repeated_within_a_sample(ticks):
    """A call much shorter than what the clock can resolve is made many times per sample."""
    count = [0]

    def call():
        count[0] += 1
        ticks[0] += 1e-5

    best = race([Contender("a", call)], seconds=0.0, rounds=2)["a"]
    assert count[0] == 2 + 2 * 200
    assert best.wall == pytest.approx(1e-5)


def test_a_loop_is_lengthened_until_it_can_be_timed(ticks):
    """`until_long` returns a count whose call lasts about one sample."""

    def call(n):
        ticks[0] += 1e-6 * n

    n = until_long(call)
    assert 1e-3 <= 1e-6 * n <= 4e-3


def test_garbage_collection_is_off_while_timing_and_on_again(ticks):
    """The collector runs in no sample and is left as it was, even after a failure."""

    def call():
        ticks[0] += 1.0
        if ticks[0] > 3.0:
            assert not gc.isenabled()
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        race([Contender("a", call)], seconds=0.0)
    assert gc.isenabled()
