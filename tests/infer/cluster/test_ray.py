"""Parts of a run on Ray: the ledger, the pools, rows and models."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from visops.infer import Model, Raw
from visops.infer.cluster.ray_ledger import ALONE, GO, LOST, STOP, Ledger
from visops.infer.images.decode import Decoder
from waiting import LIMIT

from infer.cluster.ray_stand_in import Handle, stand_in_for_ray
from infer.networks import (
    convolutions,
    make_images,
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
