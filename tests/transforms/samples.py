"""Images, targets and chains of several passes that tests of the ways through a chain share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors
from visops import _native, transforms

SIZE = (40, 52)


def numbers(*shape: int, high: int = 256, dtype: torch.dtype = torch.uint8) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randint(0, high, shape, generator=generator).to(dtype)


def image(channels: int = 3) -> Tensor:
    return numbers(channels, *SIZE)


def typed_boxes(form: str = "XYXY") -> Any:
    rows = torch.tensor([[5.0, 5, 30, 39], [10, 12, 50, 31.5], [-4, 8, 8, 8]])
    return tv_tensors.BoundingBoxes(rows, format=form, canvas_size=SIZE)  # type: ignore[call-overload]


def points(width: int = 2) -> Tensor:
    rows = torch.tensor([[3.0, 4, 2], [51.4, 39.4, 1], [-3, 9, 1], [20, float("nan"), 1]])
    return rows[:, :width].contiguous()


# Samples of one structure each.
SAMPLES: dict[str, Callable[[], Any]] = {
    "tensor": image,
    "grey": lambda: image(1),
    "strided": lambda: numbers(*SIZE, 3).permute(2, 0, 1),
    "array": lambda: numbers(*SIZE, 3).numpy(),
    "grey array": lambda: numbers(*SIZE).numpy(),
    "read-only": lambda: np.frombuffer(numbers(*SIZE, 3).numpy().tobytes(), np.uint8).reshape(
        *SIZE, 3
    ),
    "pil": lambda: PIL.Image.fromarray(numbers(*SIZE, 3).numpy()),
    "typed": lambda: tv_tensors.Image(image()),
    "batch of one": lambda: image().unsqueeze(0),
    "array of one": lambda: numbers(1, *SIZE, 3).numpy(),
    "typed batch of one": lambda: tv_tensors.Image(image().unsqueeze(0)),
    "labelled batch of one": lambda: (image().unsqueeze(0), torch.tensor([3])),
    "dict of one": lambda: {"image": image().unsqueeze(0), "labels": [4], "path": ["a.jpg"]},
    "list of one": lambda: [image()],
    "batch": lambda: numbers(5, 3, *SIZE),
    "strided batch": lambda: numbers(4, *SIZE, 3).permute(0, 3, 1, 2),
    "array batch": lambda: numbers(4, *SIZE, 3).numpy(),
    "typed batch": lambda: tv_tensors.Image(numbers(3, 3, *SIZE)),
    "list": lambda: [image(), numbers(3, *SIZE), numbers(3, *SIZE)],
    "labelled batch": lambda: {"image": numbers(2, 3, *SIZE), "labels": [4, 5], "id": "x"},
    "list of an array": lambda: [numbers(*SIZE, 3).numpy()],
    "list of a pil": lambda: [PIL.Image.fromarray(numbers(*SIZE, 3).numpy())],
    "list of a typed": lambda: [tv_tensors.Image(image())],
    "dict of a list": lambda: {"image": [image()], "id": [5]},
    "pair": lambda: (image(), 7),
    "pair of arrays": lambda: (torch.tensor(3), image(), np.array([1.0, 2.0])),
    "dict": lambda: {"image": image(), "label": 3, "path": "a.jpg", "weight": torch.ones(5)},
    "mask": lambda: {"image": image(), "mask": numbers(*SIZE, high=5)},
    "masks": lambda: {"img": image(), "masks": numbers(2, *SIZE, high=2, dtype=torch.bool)},
    "float mask": lambda: {"image": image(), "mask": -numbers(*SIZE, high=2, dtype=torch.float32)},
    "half mask": lambda: {"image": image(), "mask": numbers(2, *SIZE, dtype=torch.float16)},
    "no boxes": lambda: {"image": image(), "boxes": torch.zeros(0, 4), "labels": []},
    "no masks": lambda: {"image": image(), "masks": numbers(0, *SIZE), "keypoints": points()[:0]},
    "boxes": lambda: {"image": image(), "boxes": typed_boxes().as_subclass(Tensor)},
    "double boxes": lambda: {"boxes": typed_boxes().as_subclass(Tensor).double(), "image": image()},
    "turned boxes": lambda: {
        "image": image(),
        "boxes": typed_boxes().as_subclass(Tensor).T.contiguous().T,
    },
    "array boxes": lambda: {
        "image": numbers(*SIZE, 3).numpy(),
        "boxes": typed_boxes().numpy(),
        "labels": np.array([4, 5, 6]),
        "mask": numbers(*SIZE, high=5).numpy(),
        "masks": numbers(3, *SIZE, high=2, dtype=torch.bool).numpy(),
        "keypoints": points().numpy().astype(np.float64),
    },
    "no array boxes": lambda: {"image": image(), "boxes": np.zeros((0, 4), np.float32)},
    "points": lambda: {"image": image(), "keypoints": points()},
    "visibilities": lambda: {"image": image(), "keypoints": points(3).double()},
    "detection": lambda: (
        tv_tensors.Image(image()),
        {
            "boxes": typed_boxes(),
            "masks": tv_tensors.Mask(numbers(3, *SIZE, high=2)),
            "labels": torch.tensor([1, 2, 3]),
            "image_id": 17,
        },
    ),
    "all": lambda: {
        "image": image(),
        "boxes": typed_boxes(),
        "labels": ["a", "b", "c"],
        "mask": tv_tensors.Mask(numbers(*SIZE, high=5)),
        "masks": numbers(3, *SIZE, high=2),
        "kp": tv_tensors.KeyPoints(points(), canvas_size=SIZE),
        "keypoints": numbers(3, 2, 2, high=50, dtype=torch.float32),
        "id": "x",
    },
}


BATCHES = {"batch": 5, "strided batch": 4, "array batch": 4, "typed batch": 3, "list": 3}
BATCHES |= {"labelled batch": 2}


def index_for(name: str, index: int) -> Any:
    """Return an index for a sample, or one for each of a batch."""
    return range(index, index + BATCHES[name]) if name in BATCHES else index


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second), (first, second)
    if isinstance(first, dict):
        assert list(first) == list(second)
        for key in first:
            assert_same(first[key], second[key])
    elif isinstance(first, (list, tuple)):
        assert len(first) == len(second)
        for one, other in zip(first, second, strict=True):
            assert_same(one, other)
    elif isinstance(first, Tensor):
        one, other = (value.detach().as_subclass(Tensor) for value in (first, second))
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        for size, *steps in zip(one.shape, one.stride(), other.stride(), strict=True):
            assert size < 2 or one.numel() == 0 or steps[0] == steps[1]
        assert one.numpy().tobytes() == other.numpy().tobytes()
        assert {**first.__dict__} == {**second.__dict__}
    elif isinstance(first, np.ndarray):
        assert (first.dtype, first.shape) == (second.dtype, second.shape)
        assert first.tobytes() == second.tobytes()
    else:
        assert first is second or np.array_equal(first, second)


def mixed() -> list[Any]:
    """Passes by values between others, of which only the first moves pixels."""
    return [
        transforms.RandomAffine(30, (0.2, 0.2), (0.6, 1.4)),
        transforms.Resize((33, 47)),
        transforms.RandomPosterize(3, p=0.5),
        transforms.GaussianBlur(3, (0.5, 1.0)),
        transforms.RandomApply([transforms.ColorJitter(0.3, 0.3)], 0.5),
        transforms.RandomInvert(0.5),
    ]


def detection() -> list[Any]:
    return [
        transforms.RandomAffine(30, (0.2, 0.2), (0.6, 1.4)),
        transforms.RandomHorizontalFlip(),
        transforms.Resize((33, 47)),
        transforms.ColorJitter(0.3, 0.3, 0.3),
    ]


def still() -> list[Any]:
    return [transforms.RandomHorizontalFlip(), transforms.ColorJitter(0.3, 0.3)]


def values_first() -> list[Any]:
    return [
        transforms.RandomInvert(0.5),
        transforms.RandomHorizontalFlip(),
        transforms.RandomEqualize(0.5),
        transforms.ToDtype(torch.float32, scale=True),
        transforms.GaussianNoise(),
        transforms.RandomErasing(0.5),
    ]


@contextmanager
def noted(direct: bool = True) -> Iterator[list[bool]]:
    """Note for each call whether C++ ran all of it; without `direct`, torch's operators do."""
    went: list[bool] = []
    pipeline = _native.Pipeline.run

    def noting(*arguments: Any) -> Any:
        result = pipeline(*arguments) if direct else (False, None)
        went.append(result[0])
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native.Pipeline, "run", noting)
        if not direct:
            patch.setattr("visops.transforms.chain.execute.run_native", lambda *_: False)
        yield went


def in_one_call(call: Callable[..., Any], *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """Check that C++ runs all of a call; return its result and that of torch's operators."""
    with noted(direct=False):
        expected = call(*arguments, **options)
    with noted() as went:
        found = call(*arguments, **options)
    assert went == [True]
    return found, expected
