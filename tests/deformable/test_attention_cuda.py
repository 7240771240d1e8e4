"""CUDA's gradients of deformable attention have the CPU's bits."""

import numpy as np
import pytest
import torch
from kernels import SLOTS, use_schedule, use_slot
from torch import Tensor

from deformable.attention_cases import METHODS, Problem, problem

every_method = pytest.mark.parametrize("method", METHODS)


def gradients_on(slot: str, given: Problem, grad: Tensor, method: str) -> list[Tensor]:
    """Return the gradients of value, locations and weights."""
    value, shapes, sizes, locations, weights, points = given.arguments()
    where = (shapes, sizes, locations, weights, points, method)
    ops = torch.ops.visops
    with use_slot(slot), use_schedule(5):
        of_value = ops.multi_scale_deformable_attention_backward_value(
            grad, *where, list(value.shape)
        )
        of_samples = ops.multi_scale_deformable_attention_backward_samples(grad, value, *where)
    return [of_value, *of_samples]


def grad_of(given: Problem, *, first: int = 0, seed: int = 1) -> Tensor:
    """A gradient whose storage has `first` more elements before it."""
    batch, _, heads, channels = given.value.shape
    size = (batch, given.locations.shape[1], heads * channels)
    rng = np.random.default_rng(seed)
    numbers = torch.from_numpy(rng.standard_normal(first + int(np.prod(size))))
    return numbers.to(given.value.dtype)[first:].view(size)


def assert_cuda_gradients(given: Problem, grad: Tensor, method: str) -> None:
    """CUDA's kernels have the CPU's bits."""
    found, wanted = (
        gradients_on(slot, given, grad, method) for slot in ("cuda_emulated", "default")
    )
    for part, expected in zip(found, wanted, strict=True):
        assert part.dtype == expected.dtype
        assert part.numpy(force=True).tobytes() == expected.numpy(force=True).tobytes()


needs_emulation = pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="needs a test build")


@needs_emulation
@every_method
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("channels", "first"),
    [(4, 0), (32, 0), (32, 1), (36, 0), (72, 0), (72, 2), (6, 0), (33, 0), (1, 0), (140, 0)],
)
def test_cuda_gradients_at_borders_of_packs(
    channels: int, first: int, dtype: torch.dtype, method: str
) -> None:
    """Channels that lanes share evenly or not, and gradients that are not aligned."""
    given = problem(dtype, batch=1, queries=7, heads=2, channels=channels, points=1)
    assert_cuda_gradients(given, grad_of(given, first=first), method)


@needs_emulation
@every_method
def test_cuda_gradients_of_values_with_gaps(method: str) -> None:
    """Heads and positions that are not packed, as they are in one product for several layers."""
    for gap in (1, 2, 4):
        given = problem(queries=35, channels=8)
        wide = torch.full((*given.value.shape[:3], 8 + gap), torch.nan)
        wide[..., :8] = given.value
        given.value = wide[..., :8]
        assert_cuda_gradients(given, grad_of(given), method)


@needs_emulation
@every_method
def test_cuda_gradients_of_more_than_a_block_has_at_once(method: str) -> None:
    """Queries, samples and pixels, none of them a multiple of what blocks take."""
    given = problem(queries=67, heads=1, points=(17, 3, 1, 12), channels=4)
    assert_cuda_gradients(given, grad_of(given), method)


@needs_emulation
@every_method
@pytest.mark.parametrize("location", [0.5, 0.0, 1.0, -0.02, 1.02, torch.nan, torch.inf])
def test_cuda_gradients_where_all_samples_are_equal(location: float, method: str) -> None:
    """One list has all samples; or they are at the map's corners, or none counts."""
    given = problem(shapes=((5, 4), (1, 1), (2, 3)), queries=19, points=3)
    given.locations[:] = location
    assert_cuda_gradients(given, grad_of(given), method)
    given.locations[::2, :, :, ::3] = 0.3
    assert_cuda_gradients(given, grad_of(given), method)


@needs_emulation
@every_method
def test_cuda_gradients_with_infinite_numbers(method: str) -> None:
    """A pixel that is read in place of one outside the map does not reach that tap's sum."""
    given = problem(queries=30, points=2)
    given.value[:, ::3] = torch.inf
    given.value[:, 1::3] = torch.nan
    given.weights[:, ::4] = torch.inf
    grad = grad_of(given)
    found, wanted = (
        gradients_on(slot, given, grad, method) for slot in ("cuda_emulated", "default")
    )
    for part, expected in zip(found, wanted, strict=True):
        torch.testing.assert_close(part, expected, rtol=0, atol=0, equal_nan=True)


@every_method
@pytest.mark.parametrize("slot", SLOTS)
def test_infinite_gradients_do_not_reach_taps_outside(slot: str, method: str) -> None:
    """They were multiplied by a tap's 0."""
    given = problem(shapes=((3, 4),), queries=2, heads=1, points=1)
    given.value[:] = 1.0
    given.locations[:] = 0.0  # of four taps, one is in the map
    grad = torch.full_like(grad_of(given), torch.inf)
    _, locations, weights = gradients_on(slot, given, grad, method)
    assert bool((weights == torch.inf).all())
    assert not bool(locations.isnan().any())


@needs_emulation
@every_method
def test_cuda_gradients_without_pixels(method: str) -> None:
    """Nothing is read where there are no positions, or only on some levels."""
    for shapes in ([(0, 3), (0, 0)], [(0, 7), (2, 2), (5, 0)]):
        given = problem(shapes=shapes, points=2)
        assert_cuda_gradients(given, grad_of(given), method)


@needs_emulation
def test_places_between_pixels_are_numbered_in_32_bits() -> None:
    operator = torch.ops.visops.multi_scale_deformable_attention_backward_value
    side, heads = 2**15, 2
    empty = torch.empty(1, 0, heads, 1, 2), torch.empty(1, 0, heads, 1)
    with use_slot("cuda_emulated"), pytest.raises(RuntimeError) as caught:
        operator(
            torch.empty(1, 0, heads),
            None,
            [side, side],
            *empty,
            [1],
            "default",
            [1, side * side, heads, 1],
        )
    assert str(caught.value).startswith(
        "visops.multi_scale_deformable_attention_backward_value: has 0 samples and 4294967300 "
        "places between pixels, must be at most 1073741823 on CUDA"
    )


def assert_cuda_forward(given: Problem, method: str, shapes: Tensor | None = None) -> None:
    """The CPU's bits, where the host knows the levels or, with `shapes`, only the device does."""
    value, _, sizes, locations, weights, points = given.arguments()
    where = (shapes, sizes if shapes is None else [], locations, weights, points, method)
    found = []
    for slot in ("cuda_emulated", "default"):
        with use_slot(slot), use_schedule(5):
            found.append(torch.ops.visops.multi_scale_deformable_attention(value, *where))
    part, expected = found
    assert part.dtype == expected.dtype
    assert part.numpy().tobytes() == expected.numpy().tobytes()


# Tiles have four rows and eight columns of queries: these have more, and less.
TILED = (
    ((8, 16), (4, 8)),
    ((5, 9), (3, 8), (4, 17), (1, 1)),
    ((1, 70),),
    ((70, 1), (2, 2)),
    ((7, 7), (0, 3), (6, 6), (0, 0)),
    ((0, 0), (9, 15)),
)


@needs_emulation
@every_method
@pytest.mark.parametrize("shapes", TILED, ids=str)
@pytest.mark.parametrize("channels", [32, 12, 3])
def test_cuda_where_queries_are_positions(
    shapes: tuple[tuple[int, int], ...], channels: int, method: str
) -> None:
    """Each query is taken once, whatever is left of tiles; and in their own order, if it's not."""
    positions = sum(h * w for h, w in shapes)
    for queries in (positions, positions + 1, max(positions - 1, 0)):
        given = problem(queries=queries, shapes=shapes, channels=channels)
        assert_cuda_forward(given, method)
        assert_cuda_forward(given, method, torch.tensor(shapes))


@needs_emulation
def test_queries_are_kept_where_shapes_on_a_device_are_wrong() -> None:
    """No query is lost: what the levels don't cover is in their own order."""
    given = problem(queries=20, shapes=((4, 5),))
    value, _, _, locations, weights, points = given.arguments()
    for shape in ((4, 4), (5, 5), (-4, -5), (2**40, 2), (20, 1)):
        with use_slot("cuda_emulated"), use_schedule(5):
            found = torch.ops.visops.multi_scale_deformable_attention(
                value, torch.tensor([shape]), [], locations, weights, points, "default"
            )
        fits = shape[0] * shape[1] <= 20 and min(shape) > 0
        assert bool(found.any(-1).sum() > 0) == fits
        if fits:
            part = problem(queries=20, shapes=(shape,))
            part.value = value[:, : shape[0] * shape[1]]
            part.locations, part.weights = locations, weights
            assert torch.equal(found, part.attend())
