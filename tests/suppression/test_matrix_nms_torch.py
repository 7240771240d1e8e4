"""Matrix suppression within torch: opcheck, compile, fake tensors, threads, modes."""

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suppression.matrix_nms_cases import disc_masks
from suppression.nms_cases import BOXES, LAYOUTS, distinct_scores

OP = torch.ops.visops.matrix_nms


def sample(count: int = 40, masks: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Objects, scores [N] and ids [N]."""
    rng = np.random.default_rng(0)
    boxes = torch.from_numpy(BOXES["clusters"](rng, count)).float()
    objects = torch.from_numpy(disc_masks(rng, count)) if masks else boxes
    scores = torch.from_numpy(distinct_scores(rng, count)).float()
    return objects, scores, torch.from_numpy(rng.integers(-2, 3, count))


@pytest.mark.parametrize(
    ("dtype", "layout"),
    [(torch.float32, "transposed"), (torch.float16, "contiguous"), (torch.int32, "transposed")],
    ids=str,
)
def test_opcheck(dtype: torch.dtype, layout: str) -> None:
    boxes, scores, idxs = sample()
    boxes = LAYOUTS[layout](boxes.to(dtype))
    options = ("linear", 1.0, 0.25, 7) if dtype == torch.float16 else ()
    torch.library.opcheck(OP, (boxes, scores, idxs if options else None, *options))


@pytest.mark.parametrize(("count", "masks"), [(0, False), (1, True), (0, True), (1, False)])
def test_opcheck_of_few(count: int, masks: bool) -> None:
    torch.library.opcheck(OP, sample(count, masks))


@pytest.mark.parametrize("masks", [False, True])
def test_compile(masks: bool) -> None:
    """One program for any sizes and any number of results, 0 and 1 among them."""

    def step(objects: Tensor, scores: Tensor, idxs: Tensor) -> tuple[Tensor, ...]:
        keep, changed = visops.matrix_nms(objects, scores, idxs, min_score=0.25)
        return objects[keep].sum(0), changed * 2, keep + 1

    torch._dynamo.reset()
    found = set()
    # Counting graphs won't do: dynamo starts over once for an argument that is a float.
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for count in (40, 25, 3):
            objects, scores, idxs = sample(count, masks)
            one = torch.where(scores == scores.max(), 1.0, 0.0)
            for values in (scores, scores * 0, one):
                expected = step(objects, values, idxs)
                found.add(len(expected[1]))
                for ours, wanted in zip(compiled(objects, values, idxs), expected, strict=True):
                    assert torch.equal(ours, wanted)
    assert {0, 1} < found


@pytest.mark.parametrize("masks", [False, True])
def test_fake_tensors(masks: bool) -> None:
    """A size that is not known yet, and may be 0 or 1."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        objects, scores, idxs = (mode.from_tensor(t) for t in sample(40, masks))
        keep, changed = visops.matrix_nms(objects, scores, idxs)
        count = keep.shape[0]
        assert isinstance(count, torch.SymInt)
        assert mode.shape_env.bound_sympy(count.node.expr).lower == 0
        assert (keep.dim(), keep.dtype) == (1, torch.int64)
        assert (changed.dim(), changed.dtype) == (1, torch.float32)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("masks", [False, True])
def test_threads_change_nothing(masks: bool) -> None:
    objects, scores, _ = sample(300, masks)
    idxs = torch.arange(300) % 30
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(visops.matrix_nms(objects, scores, idxs))
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("masks", [False, True])
def test_modes(masks: bool) -> None:
    objects, scores, idxs = sample(40, masks)
    expected = visops.matrix_nms(objects, scores, idxs)
    with torch.inference_mode():
        found = [visops.matrix_nms(objects, scores, idxs)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found.append(visops.matrix_nms(objects, scores, idxs))
    scores.requires_grad_()  # has no gradient
    found.append(visops.matrix_nms(objects, scores, idxs))
    for keep, changed in found:
        assert torch.equal(keep, expected[0])
        assert torch.equal(changed, expected[1])
        assert not changed.requires_grad
