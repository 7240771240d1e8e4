"""Random calls of every operator: the CUDA kernels' code, on the CPU, against plain kernels."""

import pytest
from agree import difference, drawn, is_finding, outcome, rounding_of
from kernels import SLOTS, use_slot

from build.operators import OPERATORS

CALLS = 24  # of each operator


@pytest.mark.skipif("cuda_emulated" not in SLOTS, reason="a build without the emulation")
@pytest.mark.parametrize("name", OPERATORS)
def test_drawn_calls(name: str) -> None:
    """Sizes of zero and one are among them, as no one writes them into a test."""
    target = OPERATORS[name]
    for seed in range(CALLS):
        outcomes = []
        for slot in ("default", "cuda_emulated"):
            with use_slot(slot):
                arguments = drawn(target, name, seed)
                outcomes.append(outcome(target, arguments))
        (refused, here), (failed, there) = outcomes
        assert not is_finding(refused, failed), (seed, refused, failed)
        if not refused:
            assert difference(here, there, rounding_of(name, arguments)) == "", seed
