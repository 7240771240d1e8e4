"""No barrier of the CUDA kernels is there in vain, and none can go without a test that fails."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from cuda_check.calls import CALLS
from kernels import use_slot

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from cuda_barriers import Barrier, Survey, barriers, is_checked  # noqa: E402

BARRIERS = barriers() if is_checked() else []
checked = pytest.mark.skipif(not is_checked(), reason="VISOPS_SANITIZE=cuda was not built")


@pytest.fixture(scope="module")
def survey() -> Iterator[Survey]:
    with use_slot("cuda_emulated"):
        yield Survey(CALLS, seconds=600)


@checked
@pytest.mark.xdist_group("barriers")
def test_calls_have_no_faults(survey: Survey) -> None:
    assert not survey.errors


@checked
@pytest.mark.xdist_group("barriers")
@pytest.mark.parametrize("barrier", BARRIERS, ids=lambda barrier: str(barrier.position))
def test_missing_barrier_is_noticed(survey: Survey, barrier: Barrier) -> None:
    _, seen = survey.without(barrier)
    assert seen
