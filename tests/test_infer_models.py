"""Models by name and from files; retrying image by image; what a resumption checks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from infer_folders import Network, Refusing
from torch import nn
from visops.infer import Model, Preprocess, load_model
from visops.infer.batch import Batch, Frame
from visops.infer.forward import forward
from visops.infer.listing import Entry
from visops.infer.models import weights_digest
from visops.infer.plan import PlannedBatch

pytestmark = pytest.mark.slow


PLACE = Preprocess((4, 4)).place(4, 4)


def batch_of(count: Any) -> Any:
    plan = PlannedBatch(0, tuple(Entry(f"{i}.png") for i in range(count)))
    return Batch(plan, frames=[Frame(i, 0, 4, 4, 4, 4) for i in range(count)])


def test_torchvision_by_name() -> None:
    before = torch.random.get_rng_state()
    model = load_model("squeezenet1_1", seed=3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.preprocess == Preprocess(fit="crop")
    assert not model.as_list
    again = load_model("squeezenet1_1", seed=3)
    assert model.fingerprint() == again.fingerprint()
    assert model.fingerprint() != load_model("squeezenet1_1", seed=4).fingerprint()
    assert model.loaded == ("squeezenet1_1", None, 3, None)


def test_weights_from_a_folder(tmp_path: Path) -> None:
    other: Any = load_model("squeezenet1_1", seed=7).call
    torch.save(other.state_dict(), tmp_path / "squeezenet1_1.pth")
    model = load_model("squeezenet1_1", str(tmp_path))
    assert weights_digest(model.call) == weights_digest(other)
    with pytest.raises(FileNotFoundError, match="there are no weights of alexnet: no file"):
        load_model("alexnet", str(tmp_path))


def test_detectors_get_lists_and_no_normalisation() -> None:
    model = load_model("ssdlite320_mobilenet_v3_large", preprocess=Preprocess((64, 64)))
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
    with pytest.raises(ValueError, match=r"'resnet19' is neither a model of torchvision nor a"):
        load_model("resnet19")
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        load_model(str(tmp_path / "none.pt"))
    with pytest.raises(ValueError, match="model name 'a/b' must be non-empty, without /"):
        Model("a/b", nn.Identity())
    with pytest.raises(TypeError, match="model a is a int, must be callable"):
        Model("a", 5)  # type: ignore[arg-type]


def test_sources() -> None:
    def network(batch: Any) -> Any:
        return batch

    assert Model("a", network).source.endswith("test_sources.<locals>.network")
    assert Model("a", Network()).source == "infer_folders.Network"


def test_digests_see_values_names_and_types() -> None:
    digests = {
        weights_digest(network)
        for network in (Network(0), Network(1), Network(0).half(), nn.BatchNorm1d(3), nn.Identity())
    }
    assert len(digests) == 5
    assert weights_digest(len) is None


def test_digests_of_what_is_no_plain_tensor() -> None:
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


def test_a_culprit_is_found_and_the_others_go_on() -> None:
    inputs = torch.rand(5, 3, 4, 4) * 0.5
    inputs[3] = 1
    batch = batch_of(5)
    forward(Model("net", Refusing()), inputs, [PLACE] * 5, batch)
    done = batch.outputs["net"]
    assert done.rows == [0, 1, 2, 4]
    torch.testing.assert_close(done.output, inputs[[0, 1, 2, 4]].mean((2, 3)))
    assert batch.failures == {3: "model net: ArithmeticError: too bright"}
    assert batch.retried == 1
    forward(Model("two", Refusing()), inputs, [PLACE] * 5, batch)
    assert batch.failures[3] == (
        "model net: ArithmeticError: too bright; model two: ArithmeticError: too bright"
    )


@pytest.mark.parametrize("kind", ["dict", "list", "none"])
def test_outputs_of_single_images_are_joined(kind: str) -> None:
    def network(batch: Any) -> Any:
        if len(batch) > 1 or kind == "none":
            raise torch.OutOfMemoryError("out of memory")
        mean = batch.mean((1, 2, 3))
        return {"mean": mean} if kind == "dict" else [{"mean": value} for value in mean]

    inputs, batch = torch.rand(3, 3, 4, 4), batch_of(3)
    forward(Model("net", network), inputs, [PLACE] * 3, batch)
    output = batch.outputs["net"].output
    if kind == "none":
        assert output is None
        assert sorted(batch.failures) == [0, 1, 2]
        return
    means = output["mean"] if kind == "dict" else torch.stack([item["mean"] for item in output])
    torch.testing.assert_close(means, inputs.mean((1, 2, 3)))


def test_a_lost_device_stops_everything() -> None:
    def network(batch: Any) -> Any:
        raise torch.AcceleratorError("device-side assert")

    with pytest.raises(torch.AcceleratorError):
        forward(Model("net", network), torch.rand(2, 3, 4, 4), [PLACE] * 2, batch_of(2))
