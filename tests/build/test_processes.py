"""Worker processes and threads: pickles, copies, calls from many threads at once."""

import copy
import io
import pickle
import sys
from collections.abc import Callable
from typing import Any

import fresh
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


# Everything that is made on first use is made here by all threads together: lazily imported
# modules, the choice of kernels, torch's dispatch caches, measured tables. Under an interpreter
# with a GIL the kernels still overlap, since they release it.
PROGRAM = """
import sys, threading
import numpy as np
import torch
import visops

THREADS, ROUNDS = 8, 12
sys.setswitchinterval(1e-5)
torch.set_num_threads(2)
rng = np.random.default_rng(0)
photo = rng.integers(0, 256, (40, 50, 3), dtype=np.uint8)
boxes = torch.from_numpy(rng.random((60, 2)) * 30).float()
boxes = torch.cat([boxes, boxes + 9], 1)
scores = torch.from_numpy(rng.permutation(60) / 60).float()
image = torch.from_numpy(photo).permute(2, 0, 1)[None] / 255
matrix = [[0.9, 0.1, 1.0], [-0.1, 0.9, 2.0]]
kernel = torch.from_numpy(rng.random((5, 5))).float()


def gradient():
    leaf = image.clone().requires_grad_()
    warped = visops.warp_affine(leaf, torch.tensor(matrix))
    visops.roi_align(warped, [boxes[:5]], 3).square().sum().backward()
    return leaf.grad


def transformed(i):
    from visops import transforms as T

    chain = T.Compose([T.RandomAffine(20), T.RandomHorizontalFlip()], seed=5)
    return chain(photo, index=i)


def work():
    yield visops.warp_affine(photo, matrix)
    yield visops.augment(image, matrix, (20, 20), mean=0.5, std=0.2, layout="CHW")
    yield visops.nms(boxes, scores, 0.3)
    yield visops.soft_nms(boxes, scores)[1]
    yield visops.batched_nms(boxes, scores, torch.arange(60) % 3, 0.3)
    yield visops.convolve2d(image[0, 0], kernel, mode="same", method="auto")
    yield visops.conv2d(image, kernel[None, None].expand(2, 3, 5, 5).contiguous())
    yield gradient()
    for i in range(3):
        yield transformed(i)


found, faults, start = {}, [], threading.Barrier(THREADS)


def run(i):
    try:
        start.wait()
        for round in range(ROUNDS):
            found[i, round] = [torch.as_tensor(value) for value in work()]
    except BaseException as error:
        faults.append(repr(error))


threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not faults, faults
expected = [torch.as_tensor(value) for value in work()]
assert len(found) == THREADS * ROUNDS
for values in found.values():
    for value, wanted in zip(values, expected, strict=True):
        assert torch.equal(value, wanted)
print(len(found), "equal")
"""


@pytest.mark.parametrize("attempt", range(2))
def test_first_calls_of_all_threads_at_once(attempt: int) -> None:
    """Twice: a race in what is made once per process has one chance per process."""
    done = fresh.run(PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "96 equal\n"
