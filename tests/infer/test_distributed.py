"""`visops.infer` over the ranks of torchrun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from visops.infer import Pipeline
from visops.infer.cluster.distributed import (
    Rank,
    _device,
    digest_of,
    merge,
    run_rank,
    share,
    torchrun_rank,
    wait_for_file,
    wait_for_others,
)
from visops.infer.cluster.meeting import Meeting
from visops.infer.engine.job import Job
from visops.infer.engine.stopping import Draining
from visops.infer.store.manifest import Commit, read_manifest
from visops.infer.store.merge import Counts, merge_parts

from infer.networks import (
    BATCH,
    convolutions,
    interrupted_merge,
    make_images,
    outputs,
    pipeline,
)

# TorchScript, torchvision's decoders and parts of Ray say that they are on their way out.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 6, 23])
def test_shares_are_disjoint_complete_and_unpadded(world: int, count: int) -> None:
    numbers = list(range(100, 100 + count))
    shares = [share(numbers, Rank(index, world)) for index in range(world)]
    assert sorted(number for part in shares for number in part) == numbers
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_rank_is_what_torchrun_says() -> None:
    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    rank = torchrun_rank(environ)
    assert rank == Rank(3, 4, 1)
    assert rank.manifest == "manifest.rank-00003.jsonl"


@pytest.mark.parametrize(
    "environ", [{}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"WORLD_SIZE": "1"}]
)
def test_alone_there_is_no_rank(environ: dict[str, str]) -> None:
    assert torchrun_rank(environ) is None


@pytest.mark.parametrize(
    ("rank", "world"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0"), ("", "")]
)
def test_impossible_ranks_are_named(rank: str, world: str) -> None:
    with pytest.raises(ValueError, match=f"RANK={rank}, WORLD_SIZE={world}, LOCAL_RANK=0 in the"):
        torchrun_rank({"RANK": rank, "WORLD_SIZE": world})


def test_one_of_many_that_does_not_know_which_is_told() -> None:
    # As under a batch system: each would take itself for the whole.
    with pytest.raises(ValueError, match="RANK=, WORLD_SIZE=4, LOCAL_RANK=0 in the environment"):
        torchrun_rank({"WORLD_SIZE": "4"})


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


def test_a_file_that_other_machines_do_not_see_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plan.jsonl"
    with pytest.raises(RuntimeError, match=r"no such file after 0 s; the folder .* all machines"):
        wait_for_file(str(path), "0", seconds=0)
    path.write_text("old")
    with pytest.raises(RuntimeError, match="another file of that name"):
        wait_for_file(str(path), "0", seconds=0)


def test_a_file_that_comes_late_is_waited_for(tmp_path: Path) -> None:
    ready, path = tmp_path / "ready", tmp_path / "plan.jsonl"
    ready.write_text("new")
    path.write_text("old")
    digest = digest_of(str(ready))
    timer = threading.Timer(0.3, ready.replace, [path])
    timer.start()
    wait_for_file(str(path), digest, seconds=30)
    assert path.read_text() == "new"
    timer.join()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ranks that wait in vain say so in a test's time."""
    monkeypatch.setattr("visops.infer.cluster.meeting.PLANNING_TIMEOUT", timedelta(seconds=30))


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """Where three ranks, here threads, meet: a store like torchrun's, older than they are."""
    agents = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    yield {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(agents.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    del agents


def on_three_ranks(ask: Callable[[Rank], object]) -> list[object]:
    """Ask ranks at the same time; return what each says, or raises."""

    def answer(index: int) -> object:
        try:
            return ask(Rank(index, 3))
        except Exception as error:
            return error

    with ThreadPoolExecutor(3) as pool:
        return list(pool.map(answer, range(3)))


def run_own(pipelines: list[Pipeline], rank: Rank, images: Path, out: Path) -> object:
    """Run the rank's own one."""
    return run_rank(pipelines[rank.index], images, out, rank=rank)


def decided(rank: Rank, decision: object, environ: dict[str, str], seconds: float = 0.0) -> object:
    """What a rank hears, where rank 0 takes some time to decide."""

    def decide() -> object:
        time.sleep(seconds)
        return [rank.index, decision]

    return Meeting(rank, environ).agree(decide)


def test_all_ranks_hear_what_rank_0_decides(environ: dict[str, str]) -> None:
    assert on_three_ranks(lambda rank: decided(rank, "all", environ)) == [[0, "all"]] * 3


def test_rank_0_opens_a_store_where_there_is_none() -> None:
    # A server of this process keeps the port, and is shared with whoever opens it here again.
    server = TCPStore(
        "127.0.0.1", 0, None, is_master=True, wait_for_workers=False, multi_tenant=True
    )
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    for run in range(2):  # at once: some may be in the second before the first has ended
        assert on_three_ranks(partial(decided, decision=run, environ=environ)) == [[0, run]] * 3


def test_nobody_hears_what_was_decided_before(environ: dict[str, str]) -> None:
    # Commands of one script, runs of one program, restarts: what they leave is in the same store.
    for run in range(3):
        said = on_three_ranks(partial(decided, decision=run, environ=environ, seconds=0.2))
        assert said == [[0, run]] * 3


def test_machines_need_not_agree_how_often_they_were_restarted(environ: dict[str, str]) -> None:
    def ask(rank: Rank) -> object:
        here = {**environ, "TORCHELASTIC_RESTART_COUNT": str(rank.index)}
        return decided(rank, "all", here)

    assert on_three_ranks(ask) == [[0, "all"]] * 3


def test_a_rank_that_was_killed_before_it_heard_is_answered_when_it_asks_again(
    environ: dict[str, str],
) -> None:
    def ask(rank: Rank) -> object:
        if rank.index == 1:  # an earlier process asked, and was killed
            meeting = Meeting(rank, environ)
            assert meeting._store is not None
            meeting._store.set("ask/1", "killed")
            meeting._store.wait(["answer/killed"], timedelta(seconds=30))
        return decided(rank, "all", environ)

    assert on_three_ranks(ask) == [[0, "all"]] * 3


def test_a_rank_that_is_ahead_waits_for_its_own_run(environ: dict[str, str]) -> None:
    """Of two runs after one another, a rank may ask in the second while rank 0 is in the first."""
    ahead = threading.Event()

    def ask(rank: Rank) -> object:
        if rank.index == 2:  # which keeps rank 0 in the first run
            ahead.wait(30)
            time.sleep(0.3)
        first = decided(rank, "first", environ)
        if rank.index == 1:
            ahead.set()
        return [first, decided(rank, "second", environ)]

    assert on_three_ranks(ask) == [[[0, "first"], [0, "second"]]] * 3


def test_a_rank_0_that_was_left_over_ends(environ: dict[str, str]) -> None:
    with ThreadPoolExecutor(2) as pool:
        deciding = threading.Event()
        old = pool.submit(Meeting(Rank(0, 2), environ).agree, deciding.set)
        assert deciding.wait(30)
        new = pool.submit(decided, Rank(0, 2), "new", environ)
        with pytest.raises(RuntimeError, match="started again, with another rank 0"):
            old.result(30)
        assert decided(Rank(1, 2), None, environ) == new.result(30) == [0, "new"]


def test_decisions_may_be_larger_than_a_value_of_the_store(environ: dict[str, str]) -> None:
    text = "x" * (9 << 20)
    first, second, third = on_three_ranks(lambda rank: decided(rank, text, environ))
    assert first == second == third == [0, text]


def test_what_rank_0_raises_is_raised_everywhere(environ: dict[str, str]) -> None:
    def decide() -> None:
        raise ValueError("batch_size is 3")

    first, *others = on_three_ranks(lambda rank: Meeting(rank, environ).agree(decide))
    assert isinstance(first, ValueError)
    for error in others:
        assert isinstance(error, RuntimeError)
        assert str(error) == ("visops.infer: rank 0 could not plan: ValueError: batch_size is 3")


def test_ranks_without_a_place_to_meet_are_told() -> None:
    with pytest.raises(RuntimeError, match="ranks need MASTER_ADDR and MASTER_PORT"):
        Meeting(Rank(0, 2), {"MASTER_ADDR": "127.0.0.1"})


def test_a_store_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("visops.infer.cluster.meeting.CONNECTING_TIMEOUT", timedelta(seconds=0.5))
    with pytest.raises(RuntimeError, match=r"rank 1 can't reach the store of rank 0 at 127.*:1:"):
        Meeting(Rank(1, 2), {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"})


def test_others_are_waited_for(environ: dict[str, str], tmp_path: Path) -> None:
    ended: list[int] = []

    def work(rank: Rank) -> tuple[list[int], bool]:
        meeting = Meeting(rank, environ)
        meeting.agree(list)
        time.sleep(0.3 * rank.index)
        ended.append(rank.index)
        meeting.finish()
        start = time.monotonic()
        wait_for_others(meeting, Draining(), str(tmp_path), seconds=15, poll=0.01)
        return sorted(ended), time.monotonic() - start < 10

    assert on_three_ranks(work) == [([0, 1, 2], True)] * 3


def test_others_are_not_waited_for_when_nothing_moves(
    environ: dict[str, str], tmp_path: Path
) -> None:
    def work(rank: Rank) -> float:
        meeting = Meeting(rank, environ)
        meeting.agree(list)
        if rank.index == 1:  # it works, writes, and then ends without a word
            for _ in range(2):
                time.sleep(0.5)
                with (tmp_path / rank.manifest).open("a") as file:
                    file.write("a line\n")
            return 0.0
        meeting.finish()
        start = time.monotonic()
        wait_for_others(meeting, Draining(), str(tmp_path), seconds=4, poll=0.01)
        return time.monotonic() - start

    first, _, third = on_three_ranks(work)
    assert isinstance(first, float), first
    assert isinstance(third, float), third
    assert min(first, third) > 4.5


def test_signals_end_the_wait_for_others(environ: dict[str, str], tmp_path: Path) -> None:
    draining = Draining()
    draining.received = signal.SIGTERM
    wait_for_others(Meeting(Rank(0, 3), environ), draining, str(tmp_path))


def test_a_store_that_has_gone_is_not_waited_for() -> None:
    server = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    environ = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port)}
    meeting = Meeting(Rank(1, 2), environ)
    assert not meeting.others_have_finished()
    del server
    assert meeting.others_have_finished()
    meeting.finish()


def run_share(job: tuple[Path, Path], index: int, world: int) -> None:
    """Do a rank's share in this process, without its talk with the others."""
    images, out = job
    rank = Rank(index, world)
    ours = pipeline()
    opened = Job.open(images, out, ours.models, ours.options)
    opened.process(share(opened.plan.batches, rank), rank.manifest)


@pytest.fixture
def job(tmp_path: Path) -> tuple[Path, Path]:
    return make_images(tmp_path / "images"), tmp_path / "out"


def test_shares_merge_to_what_one_process_writes(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    for index in (2, 0, 1):
        run_share(job, index, 3)
    summary = merge(out)
    assert outputs(out) == outputs(tmp_path / "one")
    assert (summary.counts.ok, summary.counts.failed, summary.counts.skipped) == (41, 1, 1)
    assert summary.exit_code == 0


def test_merging_before_the_end_names_what_is_left(job: tuple[Path, Path]) -> None:
    run_share(job, 0, 2)
    with pytest.raises(RuntimeError, match=r"5 of 11 batches in .* are not done, batch 1 first"):
        merge(job[1])
    assert not (job[1] / "results.jsonl").exists()


def test_merging_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no plan\.jsonl in .*: nothing to merge"):
        merge(tmp_path)


def test_what_a_lost_rank_leaves_is_done_by_one_process(
    job: tuple[Path, Path], tmp_path: Path
) -> None:
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


def test_a_rank_alone_does_everything(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    summary = run_rank(pipeline(), images, out)
    assert outputs(out) == outputs(tmp_path / "one")
    assert summary.results is not None
    for name in ("summary.json", "summary.rank-00000.json"):
        assert json.loads((out / name).read_text())["counts"]["ok"] == 41


def test_a_part_that_has_gone_is_done_again_before_merging(job: tuple[Path, Path]) -> None:
    images, out = job
    pipeline().run(images, out)
    (out / "parts" / "part-00000003.jsonl").unlink()
    with pytest.raises(RuntimeError, match=r"1 of 11 batches in .* are not done, batch 3 first"):
        merge(out)


def test_only_rank_0_merges_and_when_all_have_finished(
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
        ours = [pipeline() for _ in range(3)]  # not by threads: weights are drawn
        summaries = on_three_ranks(partial(run_own, ours, images=images, out=out))
        assert [getattr(one, "results", one) for one in summaries] == [
            str(out / "results.jsonl"), None, None
        ]  # fmt: skip
        assert len(merged) == run
        assert outputs(out) == outputs(tmp_path / "one")


def test_a_signal_while_merging_does_not_kill(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted_merge(monkeypatch):
        assert run_rank(pipeline(), *job).results is not None


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run two ranks of a script, or of a module after -m."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    environ["PYTHONPATH"] = os.pathsep.join([str(TESTS), environ.get("PYTHONPATH", "")])
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [*launcher, *map(str, arguments)],
        env=environ,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_rank_killed_in_the_middle_and_resumed(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    marker = tmp_path / "killed"
    first = torchrun(TESTS / "infer" / "rank_run.py", images, out, marker)
    assert first.returncode != 0, first.stderr
    assert marker.exists()
    left = read_manifest(str(out / "manifest.rank-00001.jsonl"))
    assert len(left) < 5, "rank 1 has done its whole share of 5 batches"
    assert not (out / "results.jsonl").exists()

    second = torchrun(TESTS / "infer" / "rank_run.py", images, out)
    assert second.returncode == 0, second.stderr
    assert outputs(out) == outputs(tmp_path / "one")
    commits = [
        json.loads(line)["batch"]
        for path in out.glob("manifest*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert sorted(commits) == list(range(11)), "each batch is done exactly once"


def test_torchrun_restarts_ranks_that_were_killed(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    pipeline().run(images, tmp_path / "one")
    marker = tmp_path / "killed"
    done = torchrun("--max-restarts=1", TESTS / "infer" / "rank_run.py", images, out, marker)
    assert done.returncode == 0, done.stderr
    assert marker.exists()
    assert outputs(out) == outputs(tmp_path / "one")


def test_the_command_under_torchrun(job: tuple[Path, Path], tmp_path: Path) -> None:
    images, out = job
    torch.jit.script(convolutions().eval()).save(tmp_path / "small.ts")
    options = ["--images", images, "--models", tmp_path / "small.ts", "--batch-size", BATCH]
    options += ["--size", 32, "--workers", 0, "--no-progress"]
    from visops.infer.command import main

    assert main([*map(str, options), "--out", str(tmp_path / "one")]) == 0
    done = torchrun("-m", "visops.infer", *options, "--out", out)
    assert done.returncode == 0, done.stderr
    assert outputs(out) == outputs(tmp_path / "one")
    assert {path.name for path in out.glob("manifest*")} == {
        "manifest.rank-00000.jsonl",
        "manifest.rank-00001.jsonl",
    }
