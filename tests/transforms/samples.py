"""Images, targets and chains of several passes that tests of the ways through a chain share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
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
