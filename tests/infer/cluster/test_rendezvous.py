"""The meeting of ranks: rank 0 decides, all hear it, and all wait for each other's end."""

import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from visops.infer.cluster import distributed
from visops.infer.cluster.distributed import wait_for_others
from visops.infer.cluster.rendezvous import Rank, Rendezvous
from visops.infer.engine.stopping import Draining
from waiting import LIMIT

from infer.cluster.ranks import on_three_ranks


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks that wait in vain give up at the limit of a test, not after hours."""
    monkeypatch.setattr(
        "visops.infer.cluster.rendezvous.PLANNING_TIMEOUT", timedelta(seconds=LIMIT)
    )


def decided(rank: Rank, decision: object, environ: dict[str, str], seconds: float = 0.0) -> object:
    """Return what a rank hears if rank 0 takes some time to decide."""

    def decide() -> object:
        time.sleep(seconds)
        return [rank.index, decision]

    return Rendezvous(rank, environ).agree(decide)


def test_all_ranks_hear_what_rank_0_decides(environ: dict[str, str]) -> None:
    assert on_three_ranks(lambda rank: decided(rank, "all", environ)) == [[0, "all"]] * 3


def test_rank_0_opens_a_store_where_there_is_none() -> None:
    # A server in this process keeps the port, and is shared by later stores at that port.
    server = TCPStore(
        "127.0.0.1", 0, None, is_master=True, wait_for_workers=False, multi_tenant=True
    )
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    for run in range(2):  # some ranks may be in the second run before the first has ended
        assert on_three_ranks(partial(decided, decision=run, environ=environ)) == [[0, run]] * 3


def test_ranks_never_hear_an_earlier_decision(environ: dict[str, str]) -> None:
    # Commands of one script, runs of one program and restarts share a store.
    for run in range(3):
        said = on_three_ranks(partial(decided, decision=run, environ=environ, seconds=0.2))
        assert said == [[0, run]] * 3


def test_machines_may_have_different_numbers_of_restarts(environ: dict[str, str]) -> None:
    def ask(rank: Rank) -> object:
        here = {**environ, "TORCHELASTIC_RESTART_COUNT": str(rank.index)}
        return decided(rank, "all", here)

    assert on_three_ranks(ask) == [[0, "all"]] * 3


def test_a_rank_that_was_killed_before_it_heard_is_answered_when_it_asks_again(
    environ: dict[str, str],
) -> None:
    def ask(rank: Rank) -> object:
        if rank.index == 1:  # an earlier process asked, and was killed
            rendezvous = Rendezvous(rank, environ)
            assert rendezvous._store is not None
            rendezvous._store.set("ask/1", "killed")
            rendezvous._store.wait(["answer/killed"], timedelta(seconds=LIMIT))
        return decided(rank, "all", environ)

    assert on_three_ranks(ask) == [[0, "all"]] * 3


def test_a_rank_that_is_ahead_waits_for_its_own_run(environ: dict[str, str]) -> None:
    """A rank may ask in the second of two runs while rank 0 is still in the first."""
    ahead = threading.Event()

    def ask(rank: Rank) -> object:
        if rank.index == 2:  # keep rank 0 in the first run
            ahead.wait(LIMIT)
            time.sleep(0.3)
        first = decided(rank, "first", environ)
        if rank.index == 1:
            ahead.set()
        return [first, decided(rank, "second", environ)]

    assert on_three_ranks(ask) == [[[0, "first"], [0, "second"]]] * 3


def test_a_rank_0_that_was_left_over_ends(environ: dict[str, str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        deciding = threading.Event()
        old = pool.submit(Rendezvous(Rank(0, 2), environ).agree, deciding.set)
        assert deciding.wait(LIMIT)
        new = pool.submit(decided, Rank(0, 2), "new", environ)
        with pytest.raises(RuntimeError, match="restarted, with another rank 0"):
            old.result(LIMIT)
        assert decided(Rank(1, 2), None, environ) == new.result(LIMIT) == [0, "new"]


def test_decisions_may_be_larger_than_a_value_of_the_store(environ: dict[str, str]) -> None:
    text = "x" * (9 << 20)
    first, second, third = on_three_ranks(lambda rank: decided(rank, text, environ))
    assert first == second == third == [0, text]


def test_errors_of_rank_0_are_raised_on_all_ranks(environ: dict[str, str]) -> None:
    def decide() -> None:
        raise ValueError("batch_size is 3")

    first, *others = on_three_ranks(lambda rank: Rendezvous(rank, environ).agree(decide))
    assert isinstance(first, ValueError)
    for error in others:
        assert isinstance(error, RuntimeError)
        assert str(error) == ("visops.infer: rank 0 could not plan: ValueError: batch_size is 3")


def test_ranks_without_a_store_get_an_error() -> None:
    with pytest.raises(RuntimeError, match="ranks need MASTER_ADDR and MASTER_PORT"):
        Rendezvous(Rank(0, 2), {"MASTER_ADDR": "127.0.0.1"})


def test_a_store_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "visops.infer.cluster.rendezvous.CONNECTING_TIMEOUT", timedelta(seconds=0.5)
    )
    with pytest.raises(RuntimeError, match=r"rank 1 can't reach the store of rank 0 at 127.*:1:"):
        Rendezvous(Rank(1, 2), {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})


def test_others_are_waited_for(environ: dict[str, str], tmp_path: Path) -> None:
    ended: list[int] = []

    def work(rank: Rank) -> tuple[list[int], bool]:
        rendezvous = Rendezvous(rank, environ)
        rendezvous.agree(list)
        time.sleep(0.3 * rank.index)
        ended.append(rank.index)
        rendezvous.finish()
        start = time.monotonic()
        wait_for_others(rendezvous, Draining(), str(tmp_path), seconds=2 * LIMIT, poll=0.01)
        return sorted(ended), time.monotonic() - start < LIMIT

    assert on_three_ranks(work) == [([0, 1, 2], True)] * 3


class Clock:
    """Time that passes only while somebody sleeps.

    Parameters
    ----------
    events : dict
        What happens, by its time in seconds.
    """

    def __init__(self, events: dict[float, Callable[[], object]]) -> None:
        self.now, self._events = 0.0, events

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for due in [at for at in self._events if at <= self.now]:
            self._events.pop(due)()


def test_others_are_not_waited_for_when_nothing_moves(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another rank works, writes, and then dies."""
    path = tmp_path / Rank(1, 3).manifest

    def write() -> None:
        with path.open("a") as file:
            file.write("a line\n")

    clock = Clock({3.0: write, 6.5: write})
    monkeypatch.setattr(distributed, "time", clock)
    rendezvous = Rendezvous(Rank(0, 3), environ)
    wait_for_others(rendezvous, Draining(), str(tmp_path), seconds=4, poll=0.5)
    assert clock.now == 10.5
    assert not rendezvous.others_have_finished()


def test_signals_end_the_wait_for_others(environ: dict[str, str], tmp_path: Path) -> None:
    rendezvous, draining = Rendezvous(Rank(0, 3), environ), Draining()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait_for_others, rendezvous, draining, str(tmp_path), 2 * LIMIT, 0.01)
        with pytest.raises(TimeoutError):
            waiting.result(0.3)
        draining.received = signal.SIGTERM
        waiting.result(LIMIT)


def test_a_store_that_has_gone_is_not_waited_for() -> None:
    server = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    rendezvous = Rendezvous(Rank(1, 2), environ)
    assert not rendezvous.others_have_finished()
    del server
    assert rendezvous.others_have_finished()
    rendezvous.finish()
