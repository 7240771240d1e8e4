"""A run on Ray: its parts, and whole runs through its actors, in this process."""

import errno
import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from visops.infer import Model, Raw, StageError, Summary
from visops.infer.batch import Batch
from visops.infer.cluster.ray_ledger import ALONE, GO, LOST, STOP, Ledger
from visops.infer.frames import Frame
from visops.infer.images.decode import Decoder
from visops.infer.images.loading import DIED
from visops.infer.store.manifest import Commit, Manifest
from visops.infer.store.plan import PlannedBatch
from waiting import LIMIT, until

from infer.cluster.ray_stand_in import Handle, Here, stand_in_for_ray
from infer.networks import (
    CRASHES,
    Crashing,
    Small,
    committed,
    convolutions,
    interrupted_merge,
    make_images,
    outputs,
    pipeline,
)

# TorchScript and torchvision's decoders warn that they will be removed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_the_ledger_gives_up_a_batch_that_kills_its_workers() -> None:
    ledger = Ledger(attempts=2)
    assert [ledger.begin("models", 7, False) for _ in range(4)] == [GO, GO, LOST, LOST]
    assert ledger.begin("models", 8, False) == GO
    assert ledger.begin("write", 7, False) == GO


def test_the_ledger_runs_a_suspect_batch_alone() -> None:
    ledger = Ledger(attempts=2)
    assert ledger.begin("models", 7, False, False) == GO
    assert [ledger.begin("models", 7, False, False) for _ in range(3)] == [ALONE] * 3
    assert ledger.begin("models", 8, False, False) == GO
    assert [ledger.begin("models", 7, False, True) for _ in range(2)] == [GO, LOST]


def test_the_ledger_forgives_attempts_that_came_back() -> None:
    ledger = Ledger(attempts=2)
    for _ in range(5):
        assert ledger.begin("decode", 0, True) == GO
        ledger.end("decode", 0)
    ledger.end("decode", 0)


def test_a_draining_ledger_lets_begun_batches_finish() -> None:
    ledger = Ledger(attempts=2)
    assert ledger.begin("decode", 0, True) == GO
    ledger.drain()
    assert ledger.begin("decode", 1, True) == STOP
    assert ledger.begin("models", 0, False) == GO


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's names, whether it is installed or not."""
    stand_in_for_ray(monkeypatch)


@pytest.mark.parametrize(
    ("cores", "gpus", "device", "expected"),
    [
        (1.0, 0.0, "cpu", (1, 1, 2, 0.5, 0.0)),
        (2.0, 0.0, "cpu", (1, 1, 2, 1.0, 0.0)),
        (16.0, 0.0, "cpu", (4, 12, 2, 1.0, 0.0)),
        (16.0, 4.0, "cuda:1", (12, 4, 2, 1.0, 1.0)),
    ],
)
def test_actors_are_divided_over_a_cluster(
    cores: float, gpus: float, device: str, expected: tuple[float, ...]
) -> None:
    from visops.infer.cluster.ray_engine import Pools

    pools = Pools.of({"CPU": cores, "GPU": gpus}, 2, device)
    assert (pools.decoders, pools.networks, pools.writers, pools.cpus, pools.gpus) == expected


@pytest.mark.parametrize(
    ("device", "chosen", "expected"),
    [("cpu", {"decoders": 15}, (15, 1)), ("cpu", {"networks": 15}, (1, 15)),
     ("cuda", {"decoders": 16}, (16, 4))],
)  # fmt: skip
def test_chosen_pools_leave_room_for_the_others(
    device: str, chosen: dict[str, int], expected: tuple[int, int]
) -> None:
    from visops.infer.cluster.ray_engine import Pools

    pools = Pools.of({"CPU": 16.0, "GPU": 4.0}, 2, device, **chosen)
    assert (pools.decoders, pools.networks) == expected
    assert pools.decoders * pools.cpus + pools.networks * pools.network_cpus <= 16


@pytest.mark.parametrize(
    ("device", "chosen", "message"),
    [
        ("cpu", {"decoders": 0}, r"decoders \(--workers\) is 0, must be at least 1 with Ray"),
        ("cpu", {"networks": 0}, r"networks \(--ray-networks\) is 0, must be at least 1"),
        ("cpu", {"writers": -1}, "writers is -1, must be at least 1"),
        ("cpu", {"decoders": 16}, r"decoders=16 .* networks=1 .* need 17 cores, .* has 16"),
        ("cpu", {"decoders": 8, "networks": 9}, "need 17 cores, Ray's cluster has 16"),
        ("cuda", {"decoders": 17}, "need 17 cores, Ray's cluster has 16"),
        ("cuda", {"networks": 5}, "need 5 GPUs, Ray's cluster has 4"),
    ],
)
def test_pools_that_would_wait_without_end_are_refused(
    device: str, chosen: dict[str, int], message: str
) -> None:
    from visops.infer.cluster.ray_engine import Pools

    with pytest.raises(ValueError, match=message):
        Pools.of({"CPU": 16.0, "GPU": 4.0}, 2, device, **chosen)


@pytest.mark.parametrize(
    ("text", "said"), [("", "no reason given"), (" \n", "no reason given"), ("a\nb\n", "b")]
)
def test_the_gist_of_an_error_of_ray(text: str, said: str) -> None:
    from visops.infer.cluster.ray_engine import _last_line

    assert _last_line(RuntimeError(text)) == said


@pytest.mark.usefixtures("ray")
def test_a_suspect_batch_is_alone_and_others_are_side_by_side() -> None:
    import pyarrow as pa
    from visops.infer.cluster.ray_stages import _Actor, planned_row
    from visops.infer.store.plan import PlannedBatch

    ledger = Ledger(attempts=3)
    ledger.begin("models", 2, False)  # by a worker that died
    inside: set[int] = set()
    seen: dict[int, set[int]] = {}
    side_by_side, ended = threading.Barrier(3), threading.Event()

    def do(table: pa.Table, number: int) -> pa.Table:
        inside.add(number)
        if number < 2:
            side_by_side.wait(LIMIT)
            ended.wait(LIMIT)
        seen[number] = set(inside)
        inside.remove(number)
        return table

    class Worker(_Actor):
        def do(self, table: pa.Table, number: int, clock: object) -> pa.Table:
            return do(table, number)

    actor = Worker("models", Handle(ledger))
    tables = [pa.Table.from_pylist([planned_row(PlannedBatch(one, ()))]) for one in range(4)]
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(actor, table) for table in tables[:2]]
        side_by_side.wait(LIMIT)  # both are running
        calls.append(pool.submit(actor, tables[2]))
        time.sleep(0.1)  # batch 2 waits for them
        calls.append(pool.submit(actor, tables[3]))
        assert not seen
        ended.set()
        assert all(call.result(LIMIT) is not None for call in calls)
    assert seen[2] == {2}
    assert sorted(seen) == [0, 1, 2, 3]
    assert not ledger._begun


@pytest.mark.usefixtures("ray")
def test_a_row_keeps_pixels_and_everything_else(tmp_path: Path) -> None:
    from visops.infer.cluster.ray_stages import _packed, _unpacked
    from visops.infer.images.listing import list_images
    from visops.infer.store.plan import cut_batches

    images = make_images(tmp_path / "images", 9)
    for plan in cut_batches(list_images(images), 4):
        batch = Decoder(str(images)).batch(plan)
        again = _unpacked(_packed(batch, {}))
        assert batch.pixels is not None
        assert again.pixels is not None
        assert torch.equal(batch.pixels, again.pixels)
        assert (batch.plan, batch.frames, batch.failures) == (
            again.plan,
            again.frames,
            again.failures,
        )


@pytest.mark.usefixtures("ray")
@pytest.mark.parametrize("kind", ["module", "script", "export"])
def test_models_are_sent(kind: str, tmp_path: Path) -> None:
    import pickle

    from visops.infer import load_model
    from visops.infer.cluster.ray_stages import packed_models

    network, batch = convolutions().eval(), torch.rand(2, 3, 32, 32)
    if kind == "module":
        model = Model("small", network)
    elif kind == "script":
        torch.jit.script(network).save(tmp_path / "small.ts")
        model = load_model(str(tmp_path / "small.ts"))
    else:
        exported = torch.export.export(network, (batch,))
        torch.export.save(exported, tmp_path / "small.pt2")
        model = load_model(str(tmp_path / "small.pt2"))
    model.postprocess = Raw()  # not the default
    (again,) = pickle.loads(packed_models([model]))
    assert (again.name, again.source, again.postprocess) == ("small", model.source, Raw())
    with torch.no_grad():
        assert torch.equal(again.call(batch), network(batch))


@pytest.mark.usefixtures("ray")
def test_a_model_that_cannot_be_sent_is_named() -> None:
    from visops.infer.cluster.ray_stages import packed_models

    lock = threading.Lock()
    model = Model("odd", lambda batch: lock)
    with pytest.raises(TypeError, match=r"models odd can't be sent to Ray's workers: .*pickle"):
        packed_models([model])


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    """A run on Ray without Ray."""
    stand_in_for_ray(monkeypatch)
    from visops.infer.cluster import ray_engine

    stand_in = Here()
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr("visops.infer.cluster.ray_stages.keep_freed_memory", lambda: None)
    monkeypatch.setattr(ray_engine, "_ray", lambda: stand_in)
    monkeypatch.setattr(ray_engine, "_started_ledger", lambda ray: Handle(stand_in.ledger))
    monkeypatch.setattr(ray_engine._Run, "_rows", lambda run, batches: stand_in.rows(run, batches))
    return stand_in


def on_ray(job: tuple[Path, Path], network: torch.nn.Module | None = None) -> Summary:
    from visops.infer.cluster.ray_engine import run_ray

    return run_ray(pipeline(network), *job)


def test_actors_write_what_threads_do(
    here: Here, job: tuple[Path, Path], expected: dict[str, bytes]
) -> None:
    summary = on_ray(job)
    assert outputs(job[1]) == expected
    assert (summary.exit_code, summary.done, summary.pending) == (0, 43, 0)
    assert [stage.name for stage in summary.stages] == [
        "list", "decode", "collate", "preprocess", "models", "postprocess", "write"
    ]  # fmt: skip
    assert all(stage.images == 43 and stage.busy > 0 for stage in summary.stages)
    assert not here.ledger._begun, "the ledger was not told of every end"


def test_a_row_that_comes_twice_is_committed_once(
    here: Here, job: tuple[Path, Path], expected: dict[str, bytes]
) -> None:
    here.repeat = {0, 3}
    assert on_ray(job).done == 43
    assert committed(job[1]) == list(range(11))
    assert outputs(job[1]) == expected


def test_rounds_are_limited_in_size(
    here: Here, job: tuple[Path, Path], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("visops.infer.cluster.ray_engine.ROUND", 4)
    on_ray(job)
    assert committed(job[1]) == list(range(11))
    assert outputs(job[1]) == expected


def test_a_batch_whose_workers_died_is_named_and_the_others_are_done(
    here: Here, job: tuple[Path, Path], expected: dict[str, bytes]
) -> None:
    for _ in range(2):  # as workers that die before they call end()
        here.ledger.begin("models", 2, False)
    with pytest.raises(StageError, match=r"stage models, batch 2: RuntimeError: every worker"):
        on_ray(job)
    assert committed(job[1]) == [0, 1, *range(3, 11)]
    assert not (job[1] / "results.jsonl").exists()
    pipeline().run(*job)
    assert sorted(committed(job[1])) == list(range(11))
    assert outputs(job[1]) == expected


def decode_here(decoder: Decoder, plan: PlannedBatch) -> Batch:
    """Stands in for `decode_apart`, without a process that dies."""

    class Failing(Decoder):
        def image(self, path: str, room: int | None = None) -> tuple[torch.Tensor, Frame]:
            if path == CRASHES:
                raise RuntimeError(DIED)
            return super().image(path, room)

    return Failing(**vars(decoder)).batch(plan)


@pytest.mark.parametrize("process", [False, pytest.param(True, marks=pytest.mark.cluster)])
def test_an_image_that_crashes_its_decoder_fails_and_the_others_do_not(
    here: Here,
    job: tuple[Path, Path],
    tmp_path: Path,
    process: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The image is decoded in a process that dies, or by a stand-in for it."""
    if not process:
        monkeypatch.setattr("visops.infer.cluster.ray_stages.decode_apart", decode_here)
    here.decoder = Crashing
    for _ in range(2):
        here.ledger.begin("decode", 0, True)
    summary = on_ray(job)
    assert (summary.counts.ok, summary.counts.failed, summary.exit_code) == (40, 2, 0)
    lines = (job[1] / "quarantine.jsonl").read_text().splitlines()
    assert {line["image"]: line["reason"] for line in map(json.loads, lines)}[CRASHES] == DIED

    # All else is as if the image were damaged in a way that raises an exception.
    (job[0] / CRASHES).write_bytes(b"damaged")
    pipeline().run(job[0], tmp_path / "one")
    records = (job[1] / "results.jsonl").read_text().splitlines()
    for ours, theirs in zip(records, (tmp_path / "one/results.jsonl").open(), strict=True):
        assert json.loads(ours)["image"] == json.loads(theirs)["image"]
        assert ours == theirs.strip() or json.loads(ours)["image"] == CRASHES


def test_a_full_disk_is_named_with_stage_and_file(
    here: Here, job: tuple[Path, Path], expected: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        def write(out: str, batch: Batch) -> Commit:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{out}/parts/part-3")

        monkeypatch.setattr("visops.infer.cluster.ray_stages.write_batch", write)

    here.meanwhile[3] = fail
    with pytest.raises(StageError, match=r"stage write, batch 3: .*No space left.*parts/part-3"):
        on_ray(job)
    monkeypatch.undo()
    pipeline().run(*job)
    assert outputs(job[1]) == expected


class Odd(Exception):
    """Can be pickled, but not unpickled."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def test_an_exception_that_cannot_be_sent_is_sent_as_text(
    here: Here, job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def collate(work: object, batch: Batch) -> Batch:
        raise Odd("this", "that")

    monkeypatch.setattr("visops.infer.engine.work.Work.collate", collate)
    with pytest.raises(StageError, match=r"stage collate, batch 0: RuntimeError: Odd: this and"):
        on_ray(job)


def test_sigterm_drains(here: Here, job: tuple[Path, Path], expected: dict[str, bytes]) -> None:
    here.meanwhile[4] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    # A thread passes the signal on: wait for it.
    here.meanwhile[5] = lambda: until(lambda: here.ledger._draining)
    summary = on_ray(job)
    assert (summary.exit_code, summary.signal) == (143, signal.SIGTERM)
    assert committed(job[1])[:4] == [0, 1, 2, 3]
    assert len(committed(job[1])) <= 5
    assert summary.pending > 0
    pipeline().run(*job)
    assert outputs(job[1]) == expected


def test_batches_that_went_image_by_image_are_counted(
    here: Here, job: tuple[Path, Path], tmp_path: Path
) -> None:
    ours = pipeline(AtMostOne()).run(job[0], tmp_path / "one").retried
    assert ours > 0
    assert on_ray(job, AtMostOne()).retried == ours


class AtMostOne(Small):
    """Once it has worked, it only has memory for one image."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if len(batch) > 1 and self.left < 0:
            raise RuntimeError("out of memory")
        return super().forward(batch)


def test_a_signal_while_merging_does_not_kill(
    here: Here, job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with interrupted_merge(monkeypatch):
        assert on_ray(job).results is not None


def test_settings_of_ray_data_are_restored(
    here: Here, job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.data import DataContext

    context = DataContext.get_current()
    monkeypatch.setattr(context, "max_errored_blocks", 5)  # Ray would drop failed rows
    during: list[int] = []
    here.meanwhile[3] = lambda: during.append(context.max_errored_blocks)
    on_ray(job)
    assert (during, context.max_errored_blocks) == ([0], 5)


def test_an_error_of_the_driver_stops_the_actors(
    here: Here, job: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(manifest: Manifest, commit: Commit) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), manifest.path)

    monkeypatch.setattr(Manifest, "append", full)
    with pytest.raises(OSError, match=r"No space left.*manifest\.jsonl"):
        on_ray(job)
    until(lambda: here.ledger._draining)


@pytest.mark.usefixtures("here")
def test_a_stage_without_its_work_is_named_when_it_is_made() -> None:
    from visops.infer.cluster.ray_stages import _Actor

    class Unfinished(_Actor):
        pass

    with pytest.raises(TypeError, match=r"Unfinished .* do\b"):
        Unfinished("decode", None)  # type: ignore[abstract]
