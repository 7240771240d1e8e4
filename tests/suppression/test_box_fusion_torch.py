"""Fusion within torch: opcheck, compile, export, fake tensors, threads, modes."""

from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suppression.box_fusion_cases import CONF_TYPES, Ensemble, ensemble
from suppression.nms_cases import LAYOUTS

OP = torch.ops.visops.weighted_boxes_fusion


def sample(sizes: tuple[int, ...] = (12, 0, 9), dtype: torch.dtype = torch.float32) -> Ensemble:
    return ensemble(np.random.default_rng(0), sizes, dtype=dtype)


@pytest.mark.parametrize("turn", range(4))
def test_opcheck(turn: int) -> None:
    """Sizes, confidences, dtypes and layouts take turns."""
    sizes = ((12, 0, 9), (1,), (0,), (2, 0))[turn]
    boxes, scores, labels = sample(sizes, (torch.float32, torch.float16)[turn % 2])
    boxes = [LAYOUTS[("contiguous", "transposed")[turn // 2]](b) for b in boxes]
    weights = [1.0 + m for m in range(len(sizes))]
    options = {"conf_type": CONF_TYPES[turn], "min_score": 0.25}
    torch.library.opcheck(OP, (boxes, scores, labels, weights), options)


def test_compile() -> None:
    """One program for any sizes and any number of results, 0 and 1 among them."""

    def step(one: Any, other: Any) -> tuple[Tensor, ...]:
        parts: list[list[Tensor]] = [list(part) for part in zip(one, other, strict=True)]
        boxes, scores, labels = parts
        fused = visops.weighted_boxes_fusion(boxes, scores, labels, weights=[2, 1], min_score=0.25)
        return fused[0].sum(0) + 1, fused[1] * 2, fused[2] + 1

    torch._dynamo.reset()
    # Counting graphs won't do: dynamo starts over once for an argument that is a float.
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True, error_on_recompile=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for sizes in ((12, 9), (30, 5), (2, 3)):
            boxes, scores, labels = sample(sizes)
            for factor in (1.0, 0.0):
                models = [(boxes[m], scores[m] * factor, labels[m]) for m in range(2)]
                for ours, wanted in zip(compiled(*models), step(*models), strict=True):
                    torch.testing.assert_close(ours, wanted, rtol=0, atol=0, equal_nan=True)


def test_fake_tensors() -> None:
    """A size that is not known yet, and may be 0 or 1."""
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        models = [[mode.from_tensor(t) for t in part] for part in sample()]
        boxes, scores, labels = visops.weighted_boxes_fusion(*models)
        count = boxes.shape[0]
        assert isinstance(count, torch.SymInt)
        assert mode.shape_env.bound_sympy(count.node.expr).lower == 0
        assert (boxes.shape[1], boxes.dtype) == (4, torch.float32)
        assert (scores.dim(), scores.dtype) == (1, torch.float32)
        assert (labels.dim(), labels.dtype) == (1, torch.int64)


@pytest.mark.usefixtures("restored_threads")
@pytest.mark.parametrize("conf_type", CONF_TYPES)
def test_threads_change_nothing(conf_type: str) -> None:
    models = ensemble(np.random.default_rng(1), (500, 700, 600), labels=40)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(
            visops.weighted_boxes_fusion(
                *models, weights=[1, 0.3, 2], iou_threshold=0.2, conf_type=conf_type
            )
        )
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_inputs_that_require_grad() -> None:
    """No result has a gradient."""
    boxes, scores, labels = sample()
    expected = visops.weighted_boxes_fusion(boxes, scores, labels)
    for tensor in (*boxes, *scores):
        tensor.requires_grad_()
    found = visops.weighted_boxes_fusion(boxes, scores, labels)
    for ours, wanted in zip(found, expected, strict=True):
        assert torch.equal(ours, wanted)
        assert not ours.requires_grad


def test_inference_mode_and_autocast() -> None:
    models = sample()
    expected = visops.weighted_boxes_fusion(*models)
    with torch.inference_mode():
        found = visops.weighted_boxes_fusion(*models)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = visops.weighted_boxes_fusion(*models)
    for ours, other, wanted in zip(found, cast, expected, strict=True):
        assert torch.equal(ours, wanted)
        assert torch.equal(other, wanted)
