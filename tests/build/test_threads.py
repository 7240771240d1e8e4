"""Calls from many threads at once, the first ones of a process included."""

import subprocess
import sys

import pytest

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
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "96 equal\n"
