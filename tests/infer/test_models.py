"""Networks by name, from Python files and from torch.export files of any batch size."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch
import torchvision
from torch import Tensor, nn
from visops import batched_nms, infer
from visops.infer import (
    Auto,
    Classification,
    Model,
    Options,
    Preprocess,
    Raw,
    load_model,
    load_models,
)
from visops.infer.engine.pipeline import as_models
from visops.infer.models.exported import call_in_fixed_batches
from visops.infer.models.model import weights_digest

from infer.folders import Network, fill, records, save


def test_torchvision_by_name() -> None:
    before = torch.random.get_rng_state()
    model = load_model("squeezenet1_1", "random", seed=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.preprocess == Preprocess(fit="crop")
    assert not model.as_list
    again = load_model("squeezenet1_1", "random", seed=3)
    assert model.fingerprint() == again.fingerprint()
    assert model.fingerprint() != load_model("squeezenet1_1", "random", seed=4).fingerprint()
    assert model.loaded == ("squeezenet1_1", "random", 3, None)


def test_weights_from_a_folder(tmp_path: Path) -> None:
    other: Any = load_model("squeezenet1_1", "random", seed=7).call
    torch.save(other.state_dict(), tmp_path / "squeezenet1_1.pth")
    model = load_model("squeezenet1_1", str(tmp_path))
    assert weights_digest(model.call) == weights_digest(other)
    with pytest.raises(FileNotFoundError, match="there are no weights for alexnet: no file"):
        load_model("alexnet", str(tmp_path))


def test_detectors_get_lists_and_no_normalisation() -> None:
    model = load_model("ssdlite320_mobilenet_v3_large", "random", preprocess=Preprocess((64, 64)))
    assert model.as_list
    assert model.preprocess == Preprocess((64, 64), mean=None, std=None)
    model.to(torch.device("cpu"), torch.contiguous_format)
    with torch.inference_mode():
        found = model.forward(torch.rand(2, 3, 64, 64), [], [])
    assert [sorted(item) for item in found] == [["boxes", "labels", "scores"]] * 2


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_files(tmp_path: Path, suffix: str) -> None:
    network, example = Network(), torch.rand(2, 3, 8, 8)
    path = str(tmp_path / f"net{suffix}")
    if suffix == ".pt2":
        batch = torch.export.Dim("batch", min=1, max=64)
        torch.export.save(
            torch.export.export(network, (example,), dynamic_shapes=[{0: batch}]), path
        )
    else:
        torch.jit.script(network).save(path)
    model = load_model(path)
    assert model.name == "net"
    model.to(torch.device("cpu"), torch.channels_last)
    torch.testing.assert_close(model.forward(example, [], []), network(example))
    assert model.fingerprint()["weights"] == weights_digest(network)


def test_unknown_models(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'resnet19' is neither a torchvision model nor a"):
        load_model("resnet19")
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        load_model(str(tmp_path / "none.pt"))
    with pytest.raises(ValueError, match="model name 'a/b' must be non-empty, without /"):
        Model("a/b", nn.Identity())
    with pytest.raises(TypeError, match="model a is a int, must be callable"):
        Model("a", 5)  # type: ignore[arg-type]


def test_a_model_has_one_name() -> None:
    model = Model("b", Network())
    assert as_models({"b": model}, Options()) == [model]
    with pytest.raises(ValueError, match=r"models\['a'\] is a Model named 'b'; use the same"):
        as_models({"a": model}, Options())


def test_sources() -> None:
    def network(batch: Any) -> Any:
        return batch

    assert Model("a", network).source.endswith("test_sources.<locals>.network")
    assert Model("a", Network()).source == "infer.folders.Network"


def test_digests_depend_on_values_names_and_types() -> None:
    digests = {
        weights_digest(network)
        for network in (Network(0), Network(1), Network(0).half(), nn.BatchNorm1d(3), nn.Identity())
    }
    assert len(digests) == 5
    assert weights_digest(len) is None


def test_digests_of_sparse_tensors_and_extra_state() -> None:
    class Extra(nn.Module):
        def __init__(self, extra: Any) -> None:
            super().__init__()
            self.extra = extra
            self.register_buffer("sparse", torch.eye(3).to_sparse())

        def get_extra_state(self) -> Any:
            return self.extra

    assert weights_digest(Extra({"a": 1})) == weights_digest(Extra({"a": 1}))
    assert weights_digest(Extra({"a": 1})) != weights_digest(Extra({"a": 2}))


def test_traced_modules_are_put_into_evaluation_mode() -> None:
    network = torch.fx.symbolic_trace(nn.Sequential(nn.Dropout(0.5)))
    model = Model("net", network)
    model.to(torch.device("cpu"), torch.contiguous_format)
    assert not network.training


class Several(nn.Module):
    """Outputs of every form, with the batch first, and a number for the whole batch."""

    def forward(self, batch: Tensor) -> Any:
        mean = batch.mean((2, 3))
        return {"means": mean, "more": (mean.sum(1), [mean * 2]), "count": 3}


def exported(path: Path, network: nn.Module, batch: int, dynamic: bool = False) -> str:
    shapes = [{0: torch.export.Dim("batch", min=1, max=64)}] if dynamic else None
    program = torch.export.export(
        network.eval(), (torch.rand(batch, 3, 8, 8),), dynamic_shapes=shapes
    )
    torch.export.save(program, path)
    return str(path)


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_a_fixed_batch_size_takes_any_number_of_images(
    tmp_path: Path, size: int, count: int
) -> None:
    network = Network()
    model = load_model(exported(tmp_path / "net.pt2", network, size))
    assert model.batch_size == size
    model.to(torch.device("cpu"), torch.channels_last)
    images = torch.rand(count, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model.forward(images, [], []), network(images))


def test_outputs_of_any_form() -> None:
    sizes = []

    def network(batch: Tensor) -> Any:
        sizes.append(len(batch))
        return Several()(batch)

    images = torch.rand(5, 3, 8, 8)
    found, whole = call_in_fixed_batches(network, 2, images), Several()(images)
    assert sizes == [2, 2, 2]
    assert found["count"] == 3
    torch.testing.assert_close(found, whole)


def test_a_dynamic_batch_size_is_not_fixed(tmp_path: Path) -> None:
    assert load_model(exported(tmp_path / "net.pt2", Network(), 2, dynamic=True)).batch_size is None


def test_a_run(tmp_path: Path) -> None:
    path = exported(tmp_path / "net.pt2", Network(), 4)
    folder = fill(tmp_path / "images")
    options: dict[str, Any] = {"batch_size": 4, "workers": 0, "preprocess": Preprocess((8, 8))}
    summary = infer.run(folder, tmp_path / "out", [load_model(path)], **options)
    assert (summary.counts.ok, summary.counts.failed, summary.retried) == (13, 4, 0)
    infer.run(folder, tmp_path / "other", {"net": Network()}, **options)
    found, expected = records(tmp_path / "out"), records(tmp_path / "other")
    for name, record in expected.items():
        if record["status"] == "ok":
            one, other = found[name]["outputs"]["net"], record["outputs"]["net"]
            assert one["labels"] == other["labels"]
            assert one["scores"] == pytest.approx(other["scores"], rel=1e-5)


@pytest.mark.parametrize("suffix", [".pth", ".pt2"])
def test_a_state_dict_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    torch.save(Network().state_dict(), path)
    wanted = "TorchScript" if suffix == ".pth" else "torch.export"
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: .* A state dict"):
        load_model(str(path))
    path.write_bytes(b"nothing at all")
    with pytest.raises(ValueError, match=rf"net{suffix} is not a {wanted} file: "):
        load_model(str(path))


# Detectors that suppress boxes themselves


class Suppressing(nn.Module):
    """A detector with NMS inside; its boxes depend on the image, and so does their number."""

    def __init__(self, as_list: bool, alone: bool = False) -> None:
        super().__init__()
        self.as_list, self.alone = as_list, alone

    def one(self, image: Tensor) -> dict[str, Tensor]:
        starts = image[:, :4, :4].mean(0).flatten() * 8
        boxes = torch.stack([starts, starts, starts + 4, starts + 4], 1)
        scores = image[0, 4, :].repeat(2) * 0.9 + 0.1
        labels = torch.arange(16) % 2
        keep = batched_nms(boxes, scores, labels, 0.3)
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}

    def forward(self, images: Any) -> Any:
        found = [self.one(image) for image in (images if self.as_list else images.unbind())]
        return found[0] if self.alone else found


@pytest.mark.parametrize(
    ("as_list", "alone", "size"),
    [(False, False, 1), (False, True, 1), (False, False, 3), (True, False, 1), (True, False, 3)],
)
def test_detectors_with_suppression_inside(
    tmp_path: Path, as_list: bool, alone: bool, size: int
) -> None:
    network = Suppressing(as_list, alone)
    example: Any = torch.rand(size, 3, 8, 8)
    program = torch.export.export(network, (list(example) if as_list else example,))
    torch.export.save(program, tmp_path / "net.pt2")
    model = load_model(str(tmp_path / "net.pt2"))
    assert (model.batch_size, model.as_list) == (size, as_list)
    images = torch.rand(5, 3, 8, 8)
    found = model.forward(images, [], [])
    counts = [len(item["boxes"]) for item in found]
    assert len(counts) == 5
    assert len(set(counts)) > 1, "every image has as many boxes"
    for item, image in zip(found, images, strict=True):
        torch.testing.assert_close(item, network.one(image))
    placements = [Preprocess((8, 8)).placement(8, 8)] * 5
    for result, count in zip(Auto()(found, placements), counts, strict=True):
        assert len(result["boxes"]) == len(result["labels"]) == count


class SuppressingByTorchvision(nn.Module):
    """A detector for a single image, with torchvision's NMS inside."""

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        corners = images[0, :2, :4, :4].flatten(1).T * 8
        boxes, scores = torch.cat([corners, corners + 4], 1), images[0, 2, :4, :4].flatten()
        keep = torchvision.ops.nms(boxes, scores, 0.3)
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": torch.zeros_like(keep)}


@pytest.mark.parametrize("suffix", [".pt2", ".ts"])
def test_torchvisions_operators_are_known_to_a_fresh_process(tmp_path: Path, suffix: str) -> None:
    network, example = SuppressingByTorchvision(), torch.rand(1, 3, 8, 8)
    path = tmp_path / f"net{suffix}"
    if suffix == ".pt2":
        torch.export.save(torch.export.export(network, (example,)), path)
    else:
        torch.jit.trace(network, (example,), strict=False).save(path)
    torch.save(example, tmp_path / "example.pt")
    script = (
        "import sys, torch\n"
        "from visops.infer import load_model\n"
        "assert 'torchvision' not in sys.modules\n"
        "network, example = (load_model(sys.argv[1]).call, torch.load(sys.argv[2]))\n"
        "print(len(network(example)['boxes']))"
    )
    files = str(path), str(tmp_path / "example.pt")
    run = fresh.run(script, *files)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) == len(network(example)["boxes"])


def test_a_scripted_detector(tmp_path: Path) -> None:
    """Scripted, torchvision's detectors take a list and return their losses too."""
    network: Any = load_model("ssdlite320_mobilenet_v3_large", "random").call
    network.score_thresh, network.detections_per_img = 0.012, 9
    torch.jit.script(network).save(tmp_path / "net.ts")
    model = load_model(str(tmp_path / "net.ts"))
    assert model.as_list
    model.to(torch.device("cpu"), torch.contiguous_format)
    images = torch.rand(2, 3, 64, 64)
    with torch.inference_mode():
        found = model.forward(images, [], [])
        expected = network.eval()(list(images))
    torch.testing.assert_close(found, expected)


def test_boxes_of_one_image_and_of_no_batch() -> None:
    one = {"boxes": torch.tensor([[0.0, 0, 4, 4]]), "scores": torch.tensor([0.5])}
    placement = Preprocess((8, 8)).placement(8, 8)
    (found,) = Auto()(one, [placement])
    assert found["boxes"].tolist() == [[0, 0, 4, 4]]
    with pytest.raises(ValueError, match=r"boxes of shape \[1, 4\] for 2 images, must be \[N, K"):
        Auto()(one, [placement] * 2)


SOURCE = """
import torch
from beside import SIZE
from visops.infer import Classification, Model

class Net(torch.nn.Module):
    def __init__(self, seed=None):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, SIZE))

    def forward(self, batch):
        return batch.mean((2, 3)) @ self.weight

ready = Net()

def build():
    return Net()

def with_post():
    return Net(), Classification(2)

def model():
    return Model("own name", Net(), postprocess=Classification(1))

def number():
    return 5

def broken():
    raise KeyError("no weights")
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "beside.py").write_text("SIZE = 4\n")
    (folder / "nets.py").write_text(SOURCE)
    before, modules = list(sys.path), set(sys.modules)
    yield str(folder / "nets.py")
    sys.path[:] = before
    for name in set(sys.modules) - modules:
        if name == "beside" or name.startswith("visops_model_"):
            del sys.modules[name]


@pytest.mark.parametrize("function", ["build", "Net", "ready"])
def test_functions_classes_and_networks(file: str, function: str) -> None:
    state = torch.random.get_rng_state()
    model = load_model(f"{file}:{function}", seed=3, preprocess=Preprocess((8, 8)))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (model.name, model.source) == (function, f"nets.py:{function}")
    assert model.preprocess == Preprocess((8, 8))
    assert model.call(torch.rand(2, 3, 8, 8)).shape == (2, 4)


def test_random_weights_go_by_the_seed(file: str) -> None:
    first, again, other = (load_model(f"{file}:build", seed=seed).call for seed in (1, 1, 2))
    assert weights_digest(first) == weights_digest(again) != weights_digest(other)


def test_a_post_processing_or_a_whole_model_may_come_along(file: str) -> None:
    assert load_model(f"{file}:with_post").postprocess == Classification(2)
    model = load_model(f"{file}:model")
    assert (model.name, model.postprocess) == ("own name", Classification(1))
    assert model.loaded is not None
    assert model.loaded[0] == f"{file}:model"


def test_files_without_a_network_are_named(file: str, tmp_path: Path) -> None:
    for name, error, message in (
        (f"{file}:number", ValueError, "nets.py:number returns a int, must return a network"),
        (f"{file}:broken", ValueError, "nets.py:broken: KeyError: 'no weights'"),
        (f"{file}:missing", ValueError, "nets.py:missing: AttributeError: .*missing"),
        (f"{tmp_path}/none.py:build", FileNotFoundError, "there is no model file .*none.py"),
    ):
        with pytest.raises(error, match=message):
            load_model(name)
    (tmp_path / "wrong.py").write_text("def build(:")
    with pytest.raises(ValueError, match=r"wrong.py:build: SyntaxError"):
        load_model(f"{tmp_path}/wrong.py:build")
    with pytest.raises(ValueError, match="weights is 'w', must be None for"):
        load_models([f"{file}:build"], "w")


def test_the_command_runs_them(file: str, tmp_path: Path) -> None:
    from visops.infer.command import main

    save(tmp_path / "images" / "a.png")
    command = ["--images", str(tmp_path / "images"), "--out", str(tmp_path / "out")]
    command += ["--models", f"{file}:build,{file}:with_post", "--workers", "0", "--top-k", "3"]
    assert main(command) == 0
    outputs = records(tmp_path / "out")["a.png"]["outputs"]
    assert {name: len(found["labels"]) for name, found in outputs.items()} == {
        "build": 3,
        "with_post": 2,
    }


def test_they_are_sent_to_workers_that_lack_the_file(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray pickles by name what can be imported, which the workers can't."""
    cloudpickle = pytest.importorskip("ray.cloudpickle")
    import pickle

    from visops.infer.cluster.ray_stages import packed_models

    model = load_model(f"{file}:build")
    model.postprocess = Raw()
    packed = packed_models([model])
    assert not cloudpickle.list_registry_pickle_by_value()
    monkeypatch.delitem(sys.modules, "visops_model_nets")
    (again,) = pickle.loads(packed)
    assert weights_digest(again.call) == weights_digest(model.call)
    save(tmp_path / "images" / "a.png")
    assert infer.run(tmp_path / "images", tmp_path / "out", [again], workers=0).counts.ok == 1
