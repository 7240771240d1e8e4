"""Ranks and their shares of the batches, in this process."""

import json
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
from visops.infer import Pipeline
from visops.infer.cluster.distributed import (
    _device,
    digest_of,
    merge,
    run_rank,
    share,
    wait_for_file,
)
from visops.infer.cluster.rendezvous import Rank, torchrun_rank
from visops.infer.engine.job import Job
from visops.infer.store.manifest import Commit, read_manifest
from visops.infer.store.merge import Counts, merge_parts
from waiting import LIMIT

from infer.cluster.ranks import on_three_ranks
from infer.networks import (
    interrupted_merge,
    outputs,
    pipeline,
)

# TorchScript and torchvision's decoders warn that they will be removed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.mark.parametrize("world", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 6, 23])
def test_shares_are_disjoint_complete_and_unpadded(world: int, count: int) -> None:
    numbers = list(range(100, 100 + count))
    shares = [share(numbers, Rank(index, world)) for index in range(world)]
    assert sorted(number for part in shares for number in part) == numbers
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_rank_comes_from_torchruns_environment() -> None:
    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1"}
    rank = torchrun_rank(environ)
    assert rank == Rank(3, 4, 1)
    assert rank.manifest == "manifest.rank-00003.jsonl"


@pytest.mark.parametrize(
    "environ", [{}, {"RANK": "0"}, {"RANK": "0", "WORLD_SIZE": "1"}, {"WORLD_SIZE": "1"}]
)
def test_a_single_process_has_no_rank(environ: dict[str, str]) -> None:
    assert torchrun_rank(environ) is None


@pytest.mark.parametrize(
    ("rank", "world"), [("2", "2"), ("-1", "2"), ("x", "2"), ("0", "0"), ("", "")]
)
def test_impossible_ranks_are_named(rank: str, world: str) -> None:
    with pytest.raises(ValueError, match=f"RANK={rank}, WORLD_SIZE={world}, LOCAL_RANK=0 in the"):
        torchrun_rank({"RANK": rank, "WORLD_SIZE": world})


def test_a_world_size_without_a_rank_is_an_error() -> None:
    # As under a batch system: each process would do the whole run.
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
    with pytest.raises(RuntimeError, match=r"no such file after 0 s; all machines must share"):
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


def test_a_signal_while_merging_does_not_kill(
    job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted_merge(monkeypatch):
        assert run_rank(pipeline(), *job).results is not None
