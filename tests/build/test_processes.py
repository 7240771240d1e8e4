"""Pickles, files and copies of modules and transforms, and their use in worker processes."""

import copy
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from roi.align_cases import maps_of, proposals, same_bits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from transforms.chains import CHAINS, photo
from visops import transforms as T


def through_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "oldest pickle": lambda value: pickle.loads(pickle.dumps(value, protocol=2)),
    "torch.save": through_file,
}


class Head(nn.Module):
    """A layer, and both modules that pool."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 1)
        self.pool = visops.RoIAlign(3, 0.5, 2)
        self.pool_pyramid = visops.MultiScaleRoIAlign(["0", "1"], 2, 2)

    def forward(self, maps: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        levels = {"0": self.layer(maps), "1": self.layer(maps)[..., ::2, ::2]}
        size = tuple(maps.shape[2:])
        return self.pool(maps, boxes), self.pool_pyramid(
            levels, [boxes[:, 1:], boxes[:0, 1:]], [size]
        )


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_modules(how: str) -> None:
    maps = torch.from_numpy(maps_of((2, 3, 32, 32))).float()
    boxes = proposals(np.random.default_rng(0), 9, 32, 32)
    head = Head().eval()
    expected = head(maps, boxes)
    other = COPIES[how](head)
    assert all(same_bits(a, b) for a, b in zip(other(maps, boxes), expected, strict=True))
    assert other.state_dict().keys() == {"layer.weight", "layer.bias"}


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_transforms(how: str) -> None:
    image = photo()
    for make in CHAINS.values():
        chain = T.Compose(make(), seed=3)
        expected = chain(image, index=1)
        assert torch.equal(COPIES[how](chain)(image, index=1), expected)


class Samples(Dataset):
    """Augments images and suppresses boxes, in whichever process asks for them."""

    def __init__(self) -> None:
        self.chain = T.Compose([T.RandomResizedCrop(24), T.RandomHorizontalFlip()], seed=1)
        self.suppress = visops.nms

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, bool]:
        boxes = torch.arange(40.0).reshape(10, 4) * (index + 1) % 17
        boxes[:, 2:] += boxes[:, :2] + 3
        image = torch.arange(3 * 40 * 50, dtype=torch.int32).reshape(3, 40, 50) % 251
        keep = self.suppress(boxes, boxes[:, 0] / 17, 0.1, max_output=2)
        lazy = "onnxscript" not in sys.modules and "visops.onnx" not in sys.modules
        return self.chain(image.to(torch.uint8), index=index), keep, lazy


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_worker_processes(method: str) -> None:
    samples = Samples()
    expected = [samples[i] for i in range(len(samples))]
    loader = DataLoader(samples, batch_size=None, num_workers=1, multiprocessing_context=method)
    found = list(loader)
    assert len(found) == len(expected)
    for (image, keep, lazy), (wanted, wanted_keep, _) in zip(found, expected, strict=True):
        assert torch.equal(image, wanted)
        assert torch.equal(keep, wanted_keep)
        assert lazy or method == "fork"  # what a new process imports
