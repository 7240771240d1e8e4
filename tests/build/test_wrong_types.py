"""Values of a wrong type are refused in this library's words, not in the dispatcher's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import visops
from torch.profiler import ProfilerActivity, profile

IMAGE, MASKS = torch.rand(1, 3, 20, 30), torch.rand(3, 8, 9)
BOXES, SCORES = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11]]), torch.tensor([0.9, 0.8])
ROWS, EYE = torch.tensor([[0.0, 1, 1, 9, 9]]), torch.eye(2, 3)
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: visops.nms(BOXES, SCORES, None), "nms: iou_threshold is None, must be a number"),  # type: ignore[arg-type]
    (lambda: visops.nms(BOXES, SCORES, "0.5"), "nms: iou_threshold is '0.5', must be a number"),  # type: ignore[arg-type]
    (
        lambda: visops.nms(BOXES, SCORES, 0.5, score_threshold="x"),  # type: ignore[arg-type]
        "nms: score_threshold is 'x', must be a number or None",
    ),
    (
        lambda: visops.nms(BOXES.numpy(), SCORES.numpy(), "x"),  # type: ignore[arg-type]
        "nms: iou_threshold is 'x', must be a number",
    ),
    (
        lambda: visops.mask_nms(MASKS > 0.5, MASKS[:, 0, 0], "x"),  # type: ignore[arg-type]
        "mask_nms: iou_threshold is 'x', must be a number",
    ),
    (
        lambda: visops.paste_masks(MASKS, torch.rand(3, 4), (9, 9), threshold="x"),  # type: ignore[arg-type]
        "paste_masks: threshold is 'x', must be a number",
    ),
    (
        lambda: visops.roi_align(IMAGE, ROWS, 3, 1.0, 3.0),  # type: ignore[arg-type]
        "roi_align: sampling_ratio is 3.0, must be an integer",
    ),
    (
        lambda: visops.roi_align(IMAGE.clone().requires_grad_(), ROWS, 3, 1.0, 3.0),  # type: ignore[arg-type]
        "roi_align: sampling_ratio is 3.0, must be an integer",
    ),
    (
        lambda: visops.warp_affine(IMAGE, EYE, (3.0, 5)),  # type: ignore[arg-type]
        "warp_affine: size is (3.0, 5), must be a sequence of integers",
    ),
    (
        lambda: visops.warp_perspective(IMAGE, torch.eye(3), (3.0, 5)),  # type: ignore[arg-type]
        "warp_perspective: size is (3.0, 5), must be a sequence of integers",
    ),
    (lambda: visops.sobel(IMAGE, 1, 0, 3.0), "sobel: size is 3.0, must be 1, 3, 5 or 7"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "message"), CALLS, ids=[message for _, message in CALLS])
def test_messages(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        call()
    assert str(caught.value) == f"visops.{message}"


def test_size_of_a_plane_without_depth() -> None:
    masks = torch.zeros(1, 1, dtype=torch.bool).expand(2**16, 2**16)
    with pytest.raises(RuntimeError, match=r"masks are 65536 x 65536, must have fewer than 2\^31"):
        visops.distance_transform(masks)


def test_repeated_masks_are_not_copied() -> None:
    logits = torch.rand(4, 1, 100, 100)
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        scores = visops.stability_score(logits.expand(-1, 50, -1, -1), 0.5, 0.1)
    assert max(event.cpu_memory_usage for event in recorded.key_averages()) < logits.nbytes
    expected = visops.stability_score(logits, 0.5, 0.1).expand(-1, 50)
    assert torch.equal(scores, expected)
    assert np.array_equal(visops.stability_score(logits.numpy(), 0.5, 0.1), expected[:, :1])


def test_symbolic_traces_of_filters() -> None:
    """Sizes that are symbols outside of torch.compile."""
    from torch.fx.experimental.proxy_tensor import make_fx

    traced = make_fx(lambda x, k: visops.convolve2d(x, k), tracing_mode="symbolic")
    for image in (IMAGE, IMAGE[..., :17]):
        kernel = torch.rand(3, 5)
        found = traced(image, kernel)(image, kernel)
        assert torch.equal(found, visops.convolve2d(image, kernel, method="direct"))
