"""`kinds` of the operator augment: which kinds of sample there are, so that other kernels rest."""

from typing import Any

import pytest
import torch
from kernels import SLOTS, take_launches, use_slot
from torch import Tensor

PLAIN, INTEGERS, UPRIGHT, ROTATED = 1, 2, 4, 8
# Destination to source, in the order of kinds: enlarged, reduced, and reduced under a rotation.
MATRICES = torch.tensor(
    [
        [[0.5, 0.0, 1.0], [0.0, 0.5, 1.0]],
        [[2.0, 0.0, 1.0], [0.0, 1.5, 1.0]],
        [[1.4, 0.6, 1.0], [-0.6, 1.4, 5.0]],
    ],
    dtype=torch.float64,
)


def images(dtype: torch.dtype, count: int) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    values = torch.rand((count, 3, 40, 48), generator=generator)
    return (values * 255).to(dtype) if dtype == torch.uint8 else values.to(dtype)


def run(kinds: int, which: list[int], dtype: torch.dtype, listed: bool = False) -> Tensor:
    batch = images(dtype, len(which))
    options: dict[str, Any] = {"antialias": True, "inverse_map": True, "kinds": kinds}
    call = torch.ops.visops.augment_list if listed else torch.ops.visops.augment
    given = list(batch) if listed else batch
    return call(given, MATRICES[which], [20, 24], **options)  # type: ignore[no-any-return]


CASES = [
    (torch.uint8, [0], PLAIN),
    (torch.uint8, [1], INTEGERS),
    (torch.uint8, [1, 2], INTEGERS | ROTATED),
    (torch.float32, [1], UPRIGHT),
    (torch.float32, [0, 1], PLAIN | UPRIGHT),
    (torch.float32, [2, 1, 0], PLAIN | UPRIGHT | ROTATED),
]


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("dtype", "which", "kinds"), CASES)
def test_other_kernels_rest(dtype: torch.dtype, which: list[int], kinds: int, listed: bool) -> None:
    with use_slot("cuda_emulated"):
        expected = run(0, which, dtype, listed)
        take_launches()
        found = run(kinds, which, dtype, listed)
        launches = take_launches()
    assert torch.equal(found, expected)
    assert launches == 1 + kinds.bit_count()


@pytest.mark.parametrize(("dtype", "which", "kinds"), CASES)
def test_they_are_checked_on_the_cpu(dtype: torch.dtype, which: list[int], kinds: int) -> None:
    with use_slot(next(slot for slot in SLOTS if slot != "cuda_emulated")):
        assert torch.equal(run(kinds, which, dtype), run(0, which, dtype))
        others = 15 - kinds
        message = rf"^visops\.augment: kinds is {others}, sample 0 is of the kind \d$"
        with pytest.raises(RuntimeError, match=message):
            run(others, which, dtype)


@pytest.mark.parametrize("out_dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("channels_last", [False, True])
def test_a_sample_of_another_kind_is_0(out_dtype: torch.dtype, channels_last: bool) -> None:
    """On a GPU no one knows it before the kernels run."""
    batch = images(torch.float32, 3)
    options: tuple[Any, ...] = (True, None, None, False, [], [], None, [0.0], True, False)
    more = out_dtype, channels_last
    with use_slot("cuda_emulated"):
        found, expected = (
            torch.ops.visops.augment(
                batch, MATRICES, [20, 24], "bilinear", "constant", [0.0], *options, *more, kinds
            )
            for kinds in (PLAIN | ROTATED, 0)
        )
    assert torch.equal(found[0], expected[0])
    assert not found[1].any()
    assert torch.equal(found[2], expected[2])
    assert expected[1].any()


@pytest.mark.parametrize("kinds", [-1, 16])
def test_bad_kinds(kinds: int) -> None:
    message = rf"^visops\.augment: kinds is {kinds}, must be within \[0, 15\]$"
    with pytest.raises(RuntimeError, match=message):
        run(kinds, [0], torch.uint8)


def test_without_antialias_they_do_not_matter() -> None:
    batch = images(torch.uint8, 3)
    with use_slot("cuda_emulated"):
        one, other = (
            torch.ops.visops.augment(batch, MATRICES, [20, 24], inverse_map=True, kinds=kinds)
            for kinds in (0, ROTATED)
        )
    assert torch.equal(one, other)
