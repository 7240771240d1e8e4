"""Nothing depends on torch's default device: arguments and results are where the tensors are."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import visops
from fuzz.calls import all_targets, valid_arguments
from fuzz.draws import Draw
from torch import Tensor, nn
from torch.utils import _pytree as pytree
from transforms.chains import CHAINS
from visops import transforms as T

# Without a tensor among their arguments, these make one where torch makes new ones.
MAKING = ("visops.get_affine_matrix", "visops.get_rotation_matrix2d")
TARGETS = {target.name: target for target in all_targets() if target.name not in MAKING}
PHOTO = torch.randint(0, 256, (3, 40, 60), dtype=torch.uint8, generator=torch.Generator())


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    """A default device that holds no numbers: whoever reads one from it fails."""
    torch.set_default_device("meta")
    try:
        yield
    finally:
        torch.set_default_device(None)


def on_cpu() -> torch.device:
    return torch.device("cpu")


@pytest.mark.parametrize("name", TARGETS)
def test_every_operator_and_function(name: str) -> None:
    target = TARGETS[name]
    done = 0
    for seed in range(20):
        with on_cpu():
            arguments = valid_arguments(Draw(f"{name}/{seed}"), target)
            try:
                expected = target.function(**arguments)
            except (RuntimeError, ValueError, TypeError):
                continue
        found = target.function(**arguments)
        if isinstance(found, nn.Module):
            return  # its parameters are where modules have theirs
        for one, other in zip(*map(pytree.tree_leaves, (found, expected)), strict=True):
            if isinstance(other, Tensor):
                assert one.device == other.device
        done += 1
        if done == 3:
            return


@pytest.mark.parametrize("name", CHAINS)
def test_chains(name: str) -> None:
    with on_cpu():
        chain = T.Compose(CHAINS[name](), seed=0)
        expected = [chain(PHOTO, index=i) for i in range(3)]
    chain = T.Compose(CHAINS[name](), seed=0)
    found = [chain(PHOTO, index=i) for i in range(3)]
    assert all(map(torch.equal, found, expected))
    assert torch.equal(chain(PHOTO.expand(2, -1, -1, -1), index=[0, 1])[1], expected[1])
    chain(PHOTO)


@pytest.mark.parametrize("name", ["Grayscale", "ToImage"])
def test_transforms_that_run_by_themselves(name: str) -> None:
    """A batch's result was made on the default device, and so were tv_tensors."""
    transform = getattr(T, name)()
    for images in (PHOTO, torch.stack([PHOTO] * 2), torch.stack([PHOTO] * 2).float()):
        with on_cpu():
            expected = transform(images)
        found = transform(images)
        assert found.device == expected.device
        assert torch.equal(found, expected)


def targets() -> dict[str, Any]:
    boxes = torch.from_numpy(np.array([[3.0, 4, 20, 30], [10, 5, 50, 35]]))
    return {
        "image": PHOTO,
        "boxes": boxes,
        "labels": [0, 1],
        "masks": torch.from_numpy(np.ones((2, 40, 60), np.uint8)),
        "mask": np.ones((40, 60), np.uint8),
        "keypoints": boxes.reshape(2, 2, 2),
    }


def test_targets_choosers_and_mixing() -> None:
    steps: list[Any] = [T.RandomOrder([T.RandomHorizontalFlip(), T.RandomRotation(10)])]
    for boxes in ("keep", "clamp", "sanitize"):
        chain = T.Compose([*steps, T.RandomCrop(30)], seed=0, boxes=boxes)
        moved, params = chain(targets(), index=0, return_params=True)
        back = chain.inverse({"boxes": moved["boxes"]}, params)["boxes"]
        assert back.device == moved["image"].device == moved["boxes"].device == on_cpu()
    for mix in (T.Mosaic(40), T.MixUp(), T.CutMix()):
        batch = [{k: v for k, v in targets().items() if k != "mask"} for _ in range(4)]
        mixed = mix.collate(batch)
        assert mixed["image"].device == on_cpu() or isinstance(mixed["image"], list)
        assert mixed["boxes"][0].device == on_cpu()
    labels = torch.from_numpy(np.array([0, 2]))
    images, soft = T.MixUp(num_classes=3)(torch.stack([PHOTO] * 2), labels)
    assert images.device == soft.device == on_cpu()


def test_fill_values() -> None:
    image = torch.from_numpy(np.ones((9, 9), np.float32))
    for fill in (0.0, 2.5):
        found = visops.convolve2d(image, image[:3, :3], fillvalue=fill)
        assert found.device == on_cpu()
