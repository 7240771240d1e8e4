"""Chains of threads: order, bounds, ends, errors and times."""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from visops.infer.engine.stages import Chain, Stage, StageError
from waiting import until


def chain(source: Any, *stages: Any, room: int = 2) -> Any:
    return Chain(
        ("source", iter(source)), stages, room=room, size=lambda item: 10, number=lambda item: item
    )


def keep(into: list[int]) -> Stage[int]:
    def work(item: int) -> int:
        into.append(item)
        return item

    return Stage("keep", work)


def slowly(seconds: float) -> Callable[[int], int]:
    def work(item: int) -> int:
        time.sleep(seconds)
        return item

    return work


def run(*arguments: Any, **options: Any) -> Any:
    made = chain(*arguments, **options)
    made.start()
    assert made.wait(20), "the chain hangs"
    return made


def test_order_and_counts() -> None:
    out: list[int] = []
    made = run(range(50), Stage("double", lambda i: 2 * i), keep(out))
    assert out == [2 * i for i in range(50)]
    assert [(t.name, t.batches, t.images) for t in made.times] == [
        ("source", 50, 500),
        ("double", 50, 500),
        ("keep", 50, 500),
    ]


def test_starting_is_no_work() -> None:
    """Workers start before the first batch; more of them would not make decoding faster."""
    ready = threading.Event()

    def source() -> Any:
        ready.wait(20)  # as long as processes start and import
        yield from range(4)

    made = chain(source(), Stage("keep", lambda item: item))
    begun = time.perf_counter()
    made.start()
    until(lambda: time.perf_counter() - begun > 0.1)
    assert made.busy()[0] == 0
    ready.set()
    assert made.wait(20)
    times = made.times[0]
    assert times.starting > 0.09
    assert times.busy < 0.05
    assert (times.images, times.first) == (40, 10)
    assert times.rate() == 30 / times.busy


def test_nothing_at_all() -> None:
    finished: list[int] = []
    run([], Stage("keep", lambda i: i, lambda: finished.append(1)))
    assert finished == [1]


def test_queues_are_bounded() -> None:
    taken: list[int] = []

    def source() -> Any:
        for i in range(100):
            taken.append(i)
            yield i

    go = threading.Event()
    made = chain(source(), Stage("wait", lambda i: go.wait() and i), room=3)
    made.start()
    # One item at work, three in the queue, one without room.
    until(lambda: len(taken) >= 5)
    time.sleep(0.1)
    assert len(taken) == 5
    go.set()
    assert made.wait(20)


def test_the_slowest_stage_is_the_busiest() -> None:
    made = run(
        range(20),
        Stage("fast", lambda i: i),
        Stage("slow", slowly(0.01)),
        Stage("last", lambda i: i),
    )
    by_name = {times.name: times for times in made.times}
    assert max(made.times, key=lambda times: times.busy).name == "slow"
    assert by_name["fast"].waiting_room > 0.05
    assert by_name["last"].waiting_input > 0.1
    assert by_name["slow"].rate() == pytest.approx(200 / by_name["slow"].busy)


def test_an_error_stops_what_is_before_and_finishes_what_is_after() -> None:
    out: list[int] = []
    fed: list[int] = []
    finished: list[str] = []

    def source() -> Any:
        for i in itertools.count():
            fed.append(i)
            yield i

    def fail(i: Any) -> Any:
        if i == 5:
            raise KeyError("five")
        return i

    made = chain(
        source(),
        Stage("fail", fail, lambda: finished.append("fail")),
        Stage("slow", slowly(0.01)),
        Stage("keep", keep(out).work, lambda: finished.append("keep")),
    )
    made.start()
    with pytest.raises(StageError, match=r"stage fail, batch 5: KeyError: 'five'") as caught:
        made.wait(20)
    assert (caught.value.stage, caught.value.batch) == ("fail", 5)
    assert isinstance(caught.value.__cause__, KeyError)
    assert out == [0, 1, 2, 3, 4]
    assert finished == ["keep"]
    assert len(fed) < 12


def test_errors_of_the_source_and_at_the_end() -> None:
    def source() -> Any:
        yield 1
        raise OSError("gone")

    out: list[int] = []
    with pytest.raises(StageError, match="stage source: OSError: gone"):
        run(source(), keep(out))
    assert out == [1]

    def refuse() -> Any:
        raise OSError("full")

    with pytest.raises(StageError, match="stage last: OSError: full"):
        run(range(3), Stage("last", lambda i: i, refuse))


def test_stopping_finishes_what_is_in_flight() -> None:
    out: list[int] = []
    made = chain(itertools.count(), Stage("slow", slowly(0.005)), keep(out))
    made.start()
    until(lambda: len(out) > 3)
    assert not made.wait(0.01)
    made.stop()
    assert made.wait(20)
    assert out == list(range(len(out)))
    assert made.times[0].batches == len(out) > 3


def test_the_current_batch_counts_as_work() -> None:
    """A bar told of a batch only at its end would name another stage as the slowest."""
    go = threading.Event()
    made = chain(range(1), Stage("slow", lambda i: go.wait() and i), Stage("last", lambda i: i))
    made.start()
    until(lambda: made.busy()[1] >= 0.05)
    source, slow, last = made.busy()
    assert slow >= 0.05 > source + last
    assert made.times[1].busy == 0
    go.set()
    assert made.wait(20)
    assert made.busy() == [times.busy for times in made.times]


@pytest.mark.parametrize("fails", range(3))
def test_threads_that_cannot_be_started(fails: int, monkeypatch: pytest.MonkeyPatch) -> None:
    start, left = threading.Thread.start, itertools.count()

    def limited(thread: threading.Thread) -> None:
        if next(left) == fails:
            raise RuntimeError("can't start new thread")
        start(thread)

    out: list[int] = []
    made = chain(itertools.count(), Stage("double", lambda i: 2 * i), keep(out))
    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        made.start()
    assert made.wait(20), "those that run wait for those that don't"
    assert out == []
