"""Other forms of fusion within torch, and their messages for bad input."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from suppression.box_fusion_cases import COLUMNS, bodies, every_form, function

OPERATORS = ("weighted_boxes_fusion_3d", "non_maximum_weighted")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("sizes", [(12, 0, 9), (1,), (0,), (2, 0)])
def test_opcheck(name: str, sizes: tuple[int, ...]) -> None:
    dtype = (torch.float32, torch.float16)[len(sizes) % 2]
    boxes, scores, labels = bodies(np.random.default_rng(0), name, sizes, dtype)
    boxes = [b.nan_to_num(0, 0, 0) for b in boxes]  # opcheck compares with NaN unequal to itself
    weights = [1.0 + m for m in range(len(sizes))]
    operator = getattr(torch.ops.visops, name)
    torch.library.opcheck(operator, (boxes, scores, labels, weights), {"min_score": 0.25})


@every_form
def test_compile(name: str) -> None:
    def step(boxes: Any, scores: Any, labels: Any) -> Any:
        fused = function(name)(boxes, scores, labels, weights=[2, 1], min_score=0.25)
        return fused[0].sum(0) + 1, fused[1] * 2, fused[2] + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
        for sizes in ((12, 9), (30, 5)):
            models = bodies(np.random.default_rng(1), name, sizes, torch.float32)
            for ours, wanted in zip(compiled(*models), step(*models), strict=True):
                torch.testing.assert_close(ours, wanted, rtol=0, atol=0, equal_nan=True)


@every_form
def test_fake_tensors(name: str) -> None:
    models = bodies(np.random.default_rng(2), name, (5, 0))
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        fakes = [[mode.from_tensor(t) for t in part] for part in models]
        boxes, scores, labels = function(name)(*fakes)
        assert isinstance(boxes.shape[0], torch.SymInt)
        assert (boxes.shape[1], boxes.dtype) == (COLUMNS[name], torch.float64)
        assert (scores.dtype, labels.dtype) == (torch.float64, torch.int64)


@pytest.mark.usefixtures("restored_threads")
@every_form
def test_threads_change_nothing(name: str) -> None:
    models = bodies(np.random.default_rng(3), name, (300, 400, 300), labels=40)
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(function(name)(*models, weights=[1, 0.3, 2], iou_threshold=0.2))
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)


@every_form
def test_results_have_no_gradient(name: str) -> None:
    boxes, scores, labels = bodies(np.random.default_rng(4), name)
    expected = function(name)(boxes, scores, labels)
    for tensor in (*boxes, *scores):
        tensor.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = function(name)(boxes, scores, labels)
    for ours, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, wanted, rtol=0, atol=0, equal_nan=True)
        assert not ours.requires_grad


def valid(name: str) -> dict[str, Any]:
    """Arguments of two models with three boxes each."""
    first = "segments" if name.endswith("1d") else "boxes"
    return {
        first: [torch.zeros(3, COLUMNS[name])] * 2,
        "scores": [torch.zeros(3)] * 2,
        "labels": [torch.zeros(3, dtype=torch.int64)] * 2,
    }


def rows(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Messages, and the argument that causes each."""
    first, columns = next(iter(valid(name))), COLUMNS[name]
    right, wrong = torch.zeros(3, columns), torch.zeros(3, columns + 1)
    found: list[tuple[str, dict[str, Any]]] = [
        (
            f"{first}[1] has shape [3, {columns + 1}], must be [N, {columns}]",
            {first: [right, wrong]},
        ),
        (f"{first}[0] has shape [2], must be [N, {columns}]", {first: [torch.zeros(2), right]}),
        (f"{first}[0] has dtype int64, must be a floating type", {first: [right.long()] * 2}),
        (f"{first}[0] has dtype bool, must be a floating type", {first: [right.bool()] * 2}),
        (f"scores has 1 entries, {first} has 2", {"scores": [torch.zeros(3)]}),
        ("scores[1] has shape [4], must be [3]", {"scores": [torch.zeros(3), torch.zeros(4)]}),
        (
            "labels[0] has dtype bool, must be an integer type",
            {"labels": [torch.zeros(3).bool()] * 2},
        ),
        ("weights has 1 values, must have 2, one for each model", {"weights": [1.0]}),
        ("weights[1] is -1, must be >= 0 and finite", {"weights": [1, -1]}),
        ("weights are all 0, one must be > 0", {"weights": [0, 0]}),
        ("iou_threshold is 1.5, must be in [0, 1]", {"iou_threshold": 1.5}),
        ("min_score is nan, must be >= 0 and finite", {"min_score": float("nan")}),
    ]
    if name != "non_maximum_weighted":
        allowed = "must be avg, max, box_and_model_avg or absent_model_aware_avg"
        found.append((f"conf_type is 'mean', {allowed}", {"conf_type": "mean"}))
    return found


def calls(of_arrays: bool) -> list[tuple[type[Exception], str, Callable[[], Any]]]:
    def arrays(value: Any) -> Any:
        if isinstance(value, list) and isinstance(value[0], torch.Tensor):
            return [t.numpy() for t in value]
        return value

    found: list[tuple[type[Exception], str, Callable[[], Any]]] = []
    for name in COLUMNS:
        for message, changed in rows(name):
            given = {**valid(name), **changed}
            if of_arrays:
                given = {key: arrays(value) for key, value in given.items()}
            error = ValueError if of_arrays else RuntimeError
            call = lambda name=name, given=given: function(name)(**given)  # noqa: E731
            found.append((error, f"{name}: {message}", call))
    return found


@table(*calls(of_arrays=False))
def test_bad_tensors(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@table(*calls(of_arrays=True))
def test_bad_arrays(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


@every_form
def test_bad_kinds(name: str) -> None:
    given = valid(name)
    first = next(iter(given))
    with pytest.raises(ValueError, match=f"^visops.{name}: {first} is empty, must have an entry"):
        function(name)([], [], [])
    with pytest.raises(ValueError, match=rf"^visops.{name}: labels\[0\]\[1\] is not a whole"):
        function(name)(*list(given.values())[:2], [torch.tensor([0, 0.5, 1])] * 2)
    with pytest.raises(
        TypeError, match=rf"^visops.{name}: {first}\[0\] is a list, must be a torch"
    ):
        function(name)([[[0.0] * COLUMNS[name]]], given["scores"][:1], given["labels"][:1])
    meta = [given[first][0], given[first][0].to("meta")]
    with pytest.raises(RuntimeError, match=rf"visops.{name}: {first}\[1\] is on meta"):
        function(name)(meta, given["scores"], given["labels"])
