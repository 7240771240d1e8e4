"""Chains and photos that several tests of the transforms share."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from threads import torch_threads
from torch import Tensor
from visops import _native, transforms
from visops.transforms import Canvas, Parameters

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


@functools.cache
def _astronaut() -> Tensor:
    return torch.from_numpy(skimage.data.astronaut()).permute(2, 0, 1)


def photo(dtype: torch.dtype = torch.uint8, rows: slice = slice(20, 400)) -> Tensor:
    """Return a photo [3, 380, 440], in [0, 1] if floating."""
    image = _astronaut()[:, rows, 60:500].contiguous()
    return image if dtype is torch.uint8 else (image.to(torch.float64) / 255.0).to(dtype)


def run_torch_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch's operators run a chain, as on a GPU and where gradients are wanted."""
    monkeypatch.setattr(_native.Pipeline, "run", lambda *_: (False, None))
    for module in ("chain.execute", "classes.learned_policies"):
        monkeypatch.setattr(f"visops.transforms.{module}.run_native", lambda *_: False)


def classification() -> list[Any]:
    """Return the chain that everybody trains with."""
    return [
        transforms.RandomResizedCrop(64),
        transforms.RandomHorizontalFlip(),
        transforms.RandomAffine(20, (0.1, 0.1), (0.9, 1.1), 10),
        transforms.ColorJitter(0.4, 0.4, 0.4, 0.1),
        transforms.ToDtype(torch.float32, scale=True),
        transforms.Normalize(MEAN, STD),
        transforms.RandomErasing(),
    ]


# Chains of every kind. Their results must not depend on how they are called.
CHAINS: dict[str, Callable[[], list[Any]]] = {
    "classification": classification,
    "geometry": lambda: [
        transforms.RandomPerspective(0.7),
        transforms.RandomRotation(200, fill=3),
        transforms.RandomCrop(80, padding=10, pad_if_needed=True),
        transforms.RandomVerticalFlip(),
        transforms.Pad((1, 2), padding_mode="reflect"),
    ],
    "colour": lambda: [
        transforms.RandomGrayscale(0.3),
        transforms.ColorJitter(0.3, (0.2, 2.0), None, 0.2),
        transforms.ColorJitter(contrast=0.5),
    ],
    "policies": lambda: [
        transforms.RandAugment(3, interpolation="bilinear", operations="linear"),
        transforms.TrivialAugment(interpolation="bilinear", operations="linear"),
        transforms.Resize(50),
        transforms.CenterCrop(70),
    ],
    "noise": lambda: [
        transforms.ToDtype(torch.float32, scale=True),
        transforms.RandomErasing(p=0.8, value="random"),
        transforms.RandomHorizontalFlip(),
    ],
}


def drawn(
    transform: transforms.Transform, count: int, height: int = 300, width: int = 400
) -> dict[str, np.ndarray]:
    """Return the parameters of `count` samples, from fixed random numbers."""
    uniforms = np.random.default_rng(7).random((transform.draws, count)).T
    return transform.make_params(uniforms, Canvas(float(height), float(width)))


def one_by_one(
    chain: transforms.Compose, image: Tensor, params: Parameters, exact: bool = True
) -> Tensor:
    """Call a chain's transforms one by one, with the chain's parameters."""
    for transform, name, step in zip(chain.transforms, params.names, params.steps, strict=True):
        alone = transforms.Compose([transform], exact=exact)
        size = np.array([image.shape[-2:]])
        image = alone(image, params=Parameters([name], [step], size))
    return image


def check_batches(chain: Any, image: Tensor) -> Tensor:
    """Check that a batch and a list are their images, for any threads; return three results."""
    expected = torch.stack([chain(image, index=i) for i in range(3)])
    batch = torch.stack([image] * 3)
    assert torch.equal(chain(batch, index=range(3)), expected)
    assert torch.equal(chain([image] * 3, index=range(3)), expected)
    with torch_threads(1):
        assert torch.equal(chain(batch, index=range(3)), expected)
    return expected
