"""Ranks, their shares of the batches, and how they meet and end, in this process."""

import json
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from visops.infer import Pipeline
from visops.infer.cluster import distributed
from visops.infer.cluster.distributed import (
    _device,
    digest_of,
    merge,
    run_rank,
    share,
    wait_for_file,
    wait_for_others,
)
from visops.infer.cluster.rendezvous import Rank, Rendezvous, torchrun_rank
from visops.infer.engine.job import Job
from visops.infer.engine.process import Draining
from visops.infer.store.manifest import Commit, read_manifest
from visops.infer.store.merge import Counts, merge_parts
from waiting import LIMIT

from infer.cluster.ranks import on_three_ranks
from infer.networks import (
    interrupted_merge,
    outputs,
    pipeline,
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 6, 23])
def test_shares_are_disjoint_complete_and_unpadded(world: int, count: int) -> None:
    numbers = list(range(100, 100 + count))
    shares = [share(numbers, Rank(index, world)) for index in range(world)]
    assert sorted(number for part in shares for number in part) == numbers
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_the_rank_comes_from_torchruns_environment() -> None:
    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    rank = torchrun_rank(environ)
    assert rank == Rank(3, 4, 1)
    assert rank.manifest == "manifest.rank-00003.jsonl"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "environ", [{}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"WORLD_SIZE": "1"}]
)
def test_a_single_process_has_no_rank(environ: dict[str, str]) -> None:
    assert torchrun_rank(environ) is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("rank", "world"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0"), ("", "")]
)
def test_impossible_ranks_are_named(rank: str, world: str) -> None:
    with pytest.raises(ValueError, match=f"RANK={rank}, WORLD_SIZE={world}, LOCAL_RANK=0 in the"):
        torchrun_rank({"RANK": rank, "WORLD_SIZE": world})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_world_size_without_a_rank_is_an_error() -> None:
    # As under a batch system: each process would do the whole run.
    with pytest.raises(ValueError, match="RANK=, WORLD_SIZE=4, LOCAL_RANK=0 in the environment"):
        torchrun_rank({"WORLD_SIZE": "4"})


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    ("device", "local", "gpus", "expected"),
    [("cuda", 3, 8, "cuda:3"), ("cuda", 3, 2, "cuda:1"), ("cuda:0", 3, 8, "cuda:0"),
     ("cpu", 1, 8, "cpu"), ("cuda", 1, 0, "cuda")],
)  # fmt: skip
def test_ranks_share_a_machines_gpus(
    device: str, local: int, gpus: int, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert _device(device, Rank(local, 16, local)) == expected


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_file_that_other_machines_do_not_see_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    with pytest.raises(RuntimeError, match=r"no such file after 0 s; all machines must share"):
        wait_for_file(str(path), "0", seconds=0)
    path.write_text("old")
    with pytest.raises(RuntimeError, match="another file of that name"):
        wait_for_file(str(path), "0", seconds=0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_file_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    ready, path = tmp_path / "ready", tmp_path / "plan.jsonl"
    ready.write_text("new")
    path.write_text("old")
    digest = digest_of(str(ready))
    timer = threading.Timer(0.3, ready.replace, [path])
    timer.start()
    wait_for_file(str(path), digest, seconds=LIMIT)
    assert path.read_text() == "new"
    timer.join()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks that wait in vain give up at the limit of a test, not after hours."""
    monkeypatch.setattr(
        "visops.infer.cluster.rendezvous.PLANNING_TIMEOUT", timedelta(seconds=LIMIT)
    )


def run_own(pipelines: list[Pipeline], rank: Rank, images: Path, out: Path) -> object:
    """Run a rank with its own pipeline."""
    return run_rank(pipelines[rank.index], images, out, rank=rank)


def run_share(job: tuple[Path, Path], index: int, world: int) -> None:
    """Do a rank's share in this process, without a meeting."""
    images, out = job
    rank = Rank(index, world)
    ours = pipeline()
    opened = Job.open(images, out, ours.models, ours.options)
    opened.process(share(opened.plan.batches, rank), rank.manifest)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_shares_merge_to_what_one_process_writes(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    for index in (2, 0, 1):
        run_share(job, index, 3)
    summary = merge(out)
    assert outputs(out) == outputs(tmp_path / "one")
    assert (summary.counts.ok, summary.counts.failed, summary.counts.skipped) == (41, 1, 1)
    assert summary.exit_code == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_merging_before_the_end_names_what_is_left(job: tuple[Path, Path]) -> None:
    run_share(job, 0, 2)
    with pytest.raises(RuntimeError, match=r"5 of 11 batches in .* are not done, batch 1 first"):
        merge(job[1])
    assert not (job[1] / "results.jsonl").exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_merging_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no plan\.jsonl in .*: nothing to merge"):
        merge(tmp_path)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_one_process_does_what_a_lost_rank_left(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    run_share(job, 0, 2)
    before = read_manifest(str(out / "manifest.rank-00000.jsonl"))
    pipeline().run(images, tmp_path / "one")
    summary = pipeline().run(images, out)
    assert outputs(out) == outputs(tmp_path / "one")
    again = read_manifest(str(out / "manifest.jsonl"))
    assert len(before) == 6
    assert sorted([*before, *again]) == list(range(11))
    assert summary.exit_code == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_rank_alone_does_everything(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    summary = run_rank(pipeline(), images, out)
    assert outputs(out) == outputs(tmp_path / "one")
    assert summary.results is not None
    for name in ("summary.json", "summary.rank-00000.json"):
        assert json.loads((out / name).read_text())["counts"]["ok"] == 41


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_part_that_has_gone_is_done_again_before_merging(job: tuple[Path, Path]) -> None:
    images, out = job
    pipeline().run(images, out)
    (out / "parts" / "part-00000003.jsonl").unlink()
    with pytest.raises(RuntimeError, match=r"1 of 11 batches in .* are not done, batch 3 first"):
        merge(out)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_only_rank_0_merges_once_all_have_finished(
    job: tuple[Path, Path], environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    merged: list[str] = []

    def counted(job: Job, committed: dict[int, Commit]) -> Counts:
        merged.append(job.out)
        return merge_parts(job.out, job.plan, committed, "jsonl")

    monkeypatch.setattr(Job, "merge", counted)
    for run in (1, 2):  # in the second one, nothing is left to do
        ours = [pipeline() for _ in range(3)]  # not in the threads, which share the generator
        summaries = on_three_ranks(partial(run_own, ours, images=images, out=out))
        assert [getattr(one, "results", one) for one in summaries] == [
            str(out / "results.jsonl"), None, None
        ]  # fmt: skip
        assert len(merged) == run
        assert outputs(out) == outputs(tmp_path / "one")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_signal_while_merging_does_not_kill(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted_merge(monkeypatch):
        assert run_rank(pipeline(), *job).results is not None


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
