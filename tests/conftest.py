"""What every test file shares: skipping what this machine can't run, and hypothesis settings."""

import gc
import os
import random
from typing import Any

# Tests call most operators once with tensors of a kind: to remember their fakes takes time only.
os.environ.setdefault("TORCH_FAKE_TENSOR_DISPATCH_CACHE", "0")

import hypothesis
import numpy as np
import pytest
import torch

# Kernels run under emulation and in parallel test processes: time per example says nothing.
hypothesis.settings.register_profile("visops", deadline=None, print_blob=True)
# The same examples in every run, so that a red build is the fault of the change under test.
hypothesis.settings.register_profile(
    "ci", parent=hypothesis.settings.get_profile("visops"), derandomize=True
)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "visops")


# For GPUs that may come, torch.manual_seed() notes the call's stack: two milliseconds a test.
_torch = torch if torch.cuda.is_available() else torch.default_generator


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed what tests draw without a seed of their own: the same numbers in every run."""
    random.seed(0)
    np.random.seed(0)
    _torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests marked `cuda` where they can't run, saying why."""
    if not torch.cuda.is_available():
        reason = "torch sees no CUDA device"
    else:
        import visops

        if visops.build_info()["cuda_built"]:
            return
        reason = "visops was built without CUDA"
    for item in items:
        if item.get_closest_marker("cuda"):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """With `--dist loadgroup`, as the Makefile has it."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from scheduling import Scheduling

    return Scheduling(config, log)


# Until all modules and pytest's items are there: a million objects, and nearly all stay.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let garbage collections leave out those objects.

    Each full one would take a second, and torch and tests ask for many.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    """Say in the report which kernels were under test."""
    import visops

    info = visops.build_info()
    return (
        f"visops: {info['cpu']} kernels (of {', '.join(info['cpu_available'])}), {visops.__file__}"
    )
