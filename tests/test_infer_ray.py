"""`visops.infer` on Ray Data: a cluster of two nodes on this machine, with workers killed."""

from __future__ import annotations

import importlib.util
import os
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from infer_networks import BATCH, Small, convolutions, make_images, outputs, pipeline
from visops.infer import Model, Pipeline, Preprocess, StageError
from visops.infer.manifest import read_manifest
from visops.infer.ray_ledger import GO, LOST, STOP, Ledger

HAS_RAY = importlib.util.find_spec("ray") is not None
needs_ray = pytest.mark.skipif(not HAS_RAY, reason="ray[data] is not installed")


def test_the_ledger_gives_up_a_batch_that_kills_its_workers() -> None:
    ledger = Ledger(attempts=2)
    assert [ledger.begin("models", 7, False) for _ in range(4)] == [GO, GO, LOST, LOST]
    assert ledger.begin("models", 8, False) == GO
    assert ledger.begin("write", 7, False) == GO


def test_the_ledger_forgives_attempts_that_came_back() -> None:
    ledger = Ledger(attempts=2)
    for _ in range(5):
        assert ledger.begin("decode", 0, True) == GO
        ledger.end("decode", 0)
    ledger.end("decode", 0)


def test_a_draining_ledger_ends_what_is_begun() -> None:
    ledger = Ledger(attempts=2)
    assert ledger.begin("decode", 0, True) == GO
    ledger.drain()
    assert ledger.begin("decode", 1, True) == STOP
    assert ledger.begin("models", 0, False) == GO


@pytest.mark.parametrize(
    ("cores", "gpus", "device", "expected"),
    [
        (1.0, 0.0, "cpu", (1, 1, 2, 0.5, 0.0)),
        (2.0, 0.0, "cpu", (1, 1, 2, 1.0, 0.0)),
        (16.0, 0.0, "cpu", (4, 12, 2, 1.0, 0.0)),
        (16.0, 4.0, "cuda:1", (12, 4, 2, 1.0, 1.0)),
    ],
)
def test_a_cluster_is_divided(
    cores: float, gpus: float, device: str, expected: tuple[float, ...]
) -> None:
    pytest.importorskip("visops.infer.ray_engine")
    from visops.infer.ray_engine import Pools

    pools = Pools.of({"CPU": cores, "GPU": gpus}, 2, device)
    assert (pools.decoders, pools.networks, pools.writers, pools.cpus, pools.gpus) == expected


def test_a_cluster_without_gpus_is_named() -> None:
    from visops.infer.ray_engine import Pools

    with pytest.raises(RuntimeError, match="device is 'cuda', but Ray's cluster has no GPU"):
        Pools.of({"CPU": 4.0}, 1, "cuda")


@needs_ray
def test_pixels_and_all_else_come_through_a_row(tmp_path: Path) -> None:
    from visops.infer.decode import Decoder
    from visops.infer.listing import list_images
    from visops.infer.plan import cut_batches
    from visops.infer.ray_stages import _packed, _unpacked

    images = make_images(tmp_path / "images", 9)
    for plan in cut_batches(list_images(images), 4):
        batch = Decoder(str(images)).batch(plan)
        again = _unpacked(_packed(batch, {}))
        assert torch.equal(batch.pixels, again.pixels)
        assert (batch.plan, batch.frames, batch.failures) == (
            again.plan,
            again.frames,
            again.failures,
        )


@needs_ray
@pytest.mark.parametrize("kind", ["module", "script", "export"])
def test_models_are_sent(kind: str, tmp_path: Path) -> None:
    import pickle

    from visops.infer import load_model
    from visops.infer.ray_stages import packed_models

    network, batch = convolutions().eval(), torch.rand(2, 3, 32, 32)
    if kind == "module":
        model = Model("small", network)
    elif kind == "script":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.jit.script(network).save(tmp_path / "small.ts")
        model = load_model(str(tmp_path / "small.ts"))
    else:
        exported = torch.export.export(network, (batch,))
        torch.export.save(exported, tmp_path / "small.pt2")
        model = load_model(str(tmp_path / "small.pt2"))
    model.postprocess = convolutions  # anything that is not the default
    (again,) = pickle.loads(packed_models([model]))
    assert (again.name, again.source, again.postprocess) == ("small", model.source, convolutions)
    with torch.no_grad():
        assert torch.equal(again.call(batch), network(batch))


@needs_ray
def test_a_model_that_cannot_be_sent_is_named() -> None:
    from visops.infer.ray_stages import packed_models

    lock = threading.Lock()
    model = Model("odd", lambda batch: lock)
    with pytest.raises(TypeError, match=r"models odd can't be sent to Ray's workers: .*pickle"):
        packed_models([model])


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Two nodes; all that runs on them is on this machine."""
    if not HAS_RAY:
        pytest.skip("ray[data] is not installed")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    before = os.environ.get("PYTHONPATH")
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, before]))
    node = {"num_cpus": 2, "object_store_memory": 80 << 20}
    nodes = Cluster(head_node_args={**node, "include_dashboard": False})
    try:
        nodes.add_node(**node)
        ray.init(address=nodes.address, log_to_driver=False)
        yield
    finally:
        ray.shutdown()
        nodes.shutdown()
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_worker_killed_in_the_middle(tmp_path: Path) -> None:
    from visops.infer.ray_engine import run_ray

    images, out, marker = make_images(tmp_path / "images"), tmp_path / "out", tmp_path / "killed"
    pipeline().run(images, tmp_path / "one")
    network = Small(str(marker), after=1)
    summary = run_ray(pipeline(network), images, out, decoders=1, networks=2, writers=1)
    assert marker.exists(), "no worker was killed"
    assert outputs(out) == outputs(tmp_path / "one")
    lines = (out / "manifest.jsonl").read_text().splitlines()
    assert len(lines) == len(read_manifest(str(out / "manifest.jsonl"))) == 11
    assert (summary.exit_code, summary.done, summary.pending) == (0, 43, 0)
    times = {stage.name: stage.images for stage in summary.stages}
    assert times["decode"] == times["models"] == times["write"] == 43


class Deadly(Small):
    """Kills every worker that sees an image which is all white."""

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        if (batch.flatten(1).min(1).values > 0.999).any():
            os.kill(os.getpid(), 9)
        return super().forward(batch)


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_a_batch_that_kills_every_worker_is_given_up(tmp_path: Path) -> None:
    from PIL import Image
    from visops.infer.ray_engine import run_ray

    images, out = make_images(tmp_path / "images", 18), tmp_path / "out"
    # The third of five batches; the one after it is begun by a worker that dies, and survives.
    Image.new("RGB", (20, 20), "white").save(images / "1" / "010.png")
    options = {"batch_size": BATCH, "workers": 0}
    plain = Preprocess((32, 32), mean=None, std=None)
    deadly = Pipeline({"small": Deadly()}, **options, preprocess=plain)
    with pytest.raises(StageError, match=r"stage models, batch 2: .* every worker that began it"):
        run_ray(deadly, images, out, decoders=1, networks=1, writers=1)
    assert 2 not in read_manifest(str(out / "manifest.jsonl"))
