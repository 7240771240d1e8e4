"""Models by name and from files; what resuming a run checks."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from visops.infer import Model, Options, Preprocess, load_model
from visops.infer.engine.pipeline import as_models
from visops.infer.models.model import weights_digest

from infer.folders import Network


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
