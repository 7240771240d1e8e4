"""Networks from Python files: ``file.py:function``."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from visops import infer
from visops.infer import Classification, Preprocess, Raw, load_model, load_models
from visops.infer.models.model import weights_digest

from infer.folders import records, save

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
