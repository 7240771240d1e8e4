"""Properties of deformable attention that hold for any samples."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deformable.attention_cases import METHODS, Problem, assert_near, problem

SEEDS = st.integers(0, 2**32 - 1)
SIDES = st.tuples(st.integers(0, 9), st.integers(0, 9))
LEVELS = st.lists(SIDES, min_size=1, max_size=4)
few = settings(max_examples=25)


def double(seed: int, shapes: list[tuple[int, int]], channels: int = 5, points: int = 2) -> Problem:
    return problem(
        torch.float64, shapes=shapes, channels=channels, points=points, seed=seed, on_pixels=False
    )


@few
@given(SEEDS, LEVELS, st.integers(0, 40), st.integers(0, 4), st.sampled_from(METHODS))
def test_reference(
    seed: int, shapes: list[tuple[int, int]], channels: int, points: int, method: str
) -> None:
    made = double(seed, shapes, channels, points)
    assert_near(made.attend(method), made.expected(method), torch.float64)


@few
@given(SEEDS, LEVELS, st.sampled_from(METHODS))
def test_linear_in_values_and_weights(
    seed: int, shapes: list[tuple[int, int]], method: str
) -> None:
    made, other = double(seed, shapes), double(seed + 1, shapes)
    joined = Problem(
        made.value + 2 * other.value, made.shapes, made.locations, made.weights, made.points
    )
    apart = Problem(other.value, made.shapes, made.locations, made.weights, made.points)
    wanted = made.attend(method) + 2 * apart.attend(method)
    torch.testing.assert_close(joined.attend(method), wanted, rtol=0, atol=1e-12)
    made.weights = made.weights * 4
    assert torch.equal(made.attend(method), double(seed, shapes).attend(method) * 4)


@few
@given(SEEDS, SIDES, SIDES, st.sampled_from(METHODS))
def test_levels_may_change_positions(
    seed: int, first: tuple[int, int], second: tuple[int, int], method: str
) -> None:
    """A level is its pixels and samples, wherever it stands."""
    made = double(seed, [first, second])
    area = first[0] * first[1]
    turned = Problem(
        torch.cat([made.value[:, area:], made.value[:, :area]], 1),
        (second, first),
        torch.roll(made.locations, 2, 3),
        torch.roll(made.weights, 2, 3),
        made.points,
    )
    torch.testing.assert_close(turned.attend(method), made.attend(method), rtol=0, atol=1e-13)


@few
@given(SEEDS, LEVELS, st.sampled_from(METHODS))
def test_gradients_are_transposes(seed: int, shapes: list[tuple[int, int]], method: str) -> None:
    """<A v, g> = <v, A^T g>, and the gradient of weights gives the same sum."""
    made = double(seed, shapes).with_gradients()
    out = made.attend(method)
    grad = torch.rand(out.shape, dtype=torch.float64)
    of_value, of_weights = torch.autograd.grad(out, (made.value, made.weights), grad)
    wanted = (out * grad).sum()
    torch.testing.assert_close((of_value * made.value).sum(), wanted, rtol=0, atol=1e-11)
    torch.testing.assert_close((of_weights * made.weights).sum(), wanted, rtol=0, atol=1e-11)
