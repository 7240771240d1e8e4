"""Chains of threads: order, bounds, ends, errors; the bar and the table; memory that is kept."""

import ctypes
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import fresh
import pytest
from visops.infer import Counts, Summary
from visops.infer.engine.stages import Chain, Stage, StageError
from visops.infer.store.summary import StageTimes
from visops.infer.view.report import Progress, advice, table
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


class Bar:
    """Stands in for tqdm, without a terminal."""

    disable = False
    n = 0
    said = ""

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self.said = text

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def bar() -> Any:
    progress = Progress(10, 2, shown=False)
    progress._bar = Bar()
    return progress


class Fixed:
    """Stages with given times."""

    def __init__(self, **busy: float) -> None:
        self.times = [StageTimes(name, 1, 3, spent) for name, spent in busy.items()]


def test_the_bar_names_the_busiest_stage_since_the_last_tick(bar: Any) -> None:
    chain = Fixed(decode=5.0, models=1.0)
    bar.tick(chain)
    assert bar._bar.said == "decode 1 models 3 /s, limits: decode"
    assert bar._bar.n == 5
    chain.times[1].busy = 1.5
    bar.tick(chain)
    assert bar._bar.said.endswith("limits: models")


def test_the_current_batch_counts_as_work_in_the_bar(bar: Any) -> None:
    """A network may take seconds per batch, and its time stands still during most ticks."""

    class Working(Fixed):
        now = (1.0, 1.0)

        def busy(self) -> Any:
            return self.now

    chain = Working(decode=1.0, models=1.0)
    bar.tick(chain)
    chain.times[0].busy = 1.1
    chain.now = (1.1, 1.5)
    bar.tick(chain)
    assert bar._bar.said.endswith("limits: models")


def test_a_chain_reports_the_time_of_current_batches(bar: Any) -> None:
    """A network takes seconds per batch, but the bar looks at stages every half second."""
    release = threading.Event()

    def network(item: int) -> int:
        release.wait(60)
        return item

    chain: Chain[int] = Chain(
        ("decode", iter(range(3))),
        [Stage("models", network)],
        room=1,
        size=lambda item: 1,
        number=lambda item: item,
    )
    chain.start()
    try:
        until(lambda: chain.busy()[1] > 0.05)
        for _ in range(3):
            time.sleep(0.02)
            bar.tick(chain)
            assert bar._bar.said.endswith("limits: models")
        assert chain.times[1].busy == 0
    finally:
        release.set()
        chain.wait()
    assert chain.busy() == [stage.busy for stage in chain.times]


def test_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A log gets a line now and then instead of a bar."""
    now = [100.0]
    monkeypatch.setattr("visops.infer.view.report.time.monotonic", lambda: now[0])
    progress, silent = Progress(10, 2), Progress(10, 2, shown=False)
    chain: Any = Fixed(decode=5.0, models=1.0)
    for seconds in (0.5, 29.0, 0.5, 0.5, 29.4, 0.2):
        now[0] += seconds
        progress.tick(chain)
        silent.tick(chain)
    progress.close()
    line = "visops.infer: 5 of 10 images, decode 1 models 3 /s, limits: decode"
    assert capsys.readouterr().err.splitlines() == [line, line]


def test_the_table_counts_starting_apart() -> None:
    stages = [StageTimes("decode", 4, 40, 1.0, first=10), StageTimes("models", 4, 40, 3.0)]
    summary = Summary(Counts(listed=40, ok=40), done=40, seconds=4.0, starting=6.0, stages=stages)
    text = table(summary)
    assert "40 images in 4.0 s: 10.0 images/s, after 6.0 s to start" in text
    assert advice("models") in text
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["30", "13"]
    for stage in stages:  # one batch says nothing about speed
        stage.batches = 1
    assert "bottleneck" not in table(summary)


def test_the_table_has_no_empty_lines() -> None:
    text = table(Summary(Counts(listed=3, ok=1, failed=1), pending=1))
    assert text == "3 listed: 1 ok, 1 failed, 0 skipped, 1 left"
    text = table(Summary(Counts(listed=2, ok=1, failed=1), results="out/results.jsonl"))
    assert text.splitlines()[1:] == [
        "failures and their reasons: quarantine.jsonl",
        "results: out/results.jsonl",
    ]


@pytest.mark.parametrize("stage", ["decode", "preprocess"])
def test_advice_does_not_suggest_defaults(stage: str) -> None:
    assert " --reduced" not in advice(stage)
    assert advice("other") == "other is the bottleneck."


BLOCK = 80 << 20  # bytes, more than the 64 MB of a thread's arena in glibc
FEWEST_PAGES = BLOCK // (2 << 20)  # of a block: huge ones
ROUNDS = 5
SETTLING = 50  # blocks, at most, before the memory that is kept suffices

PROGRAM = f"""
import os, resource, threading
import torch
from visops.infer import keep_freed_memory

def fill(blocks):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(blocks):
        torch.ones({BLOCK}, dtype=torch.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def work(kept):
    # Malloc sets the few bytes left over by alignment aside for small objects of the thread, up to
    # seven times for each of some sizes. Each time, the block that is freed is too small for the
    # next one.
    for _ in range({SETTLING} if kept else 1):
        if fill(1) < {FEWEST_PAGES}:
            break
    print(fill({ROUNDS}), flush=True)

for kept in (True, False):  # in forks, because importing torch takes longest
    if os.fork() == 0:
        if kept:
            assert keep_freed_memory()
        thread = threading.Thread(target=work, args=(kept,))
        thread.start()
        thread.join()
        work(kept)
        os._exit(0)
    assert os.wait()[1] == 0
"""


def faults() -> list[int]:
    """Pages mapped for the last blocks: kept and given back, in another thread and the first."""
    done = fresh.run(PROGRAM, check=True)
    return [int(line) for line in done.stdout.split()]


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="malloc is not glibc's"
)
def test_freed_memory_is_kept_in_all_threads() -> None:
    kept = []
    for _ in range(3):  # under load, one block of hundreds has been mapped anew
        pages = faults()
        assert min(pages[2:]) >= ROUNDS * FEWEST_PAGES
        kept.append(max(pages[:2]))
        if kept[-1] < FEWEST_PAGES:
            return
    pytest.fail(f"{kept} pages were mapped")
