"""torch.jit.trace: the bits of eager, for sizes that the function doesn't read in Python."""

import warnings

import pytest
import torch
import visops
from roi.align_cases import same_bits

from exporting.cases import CASES, Call, leaves
from exporting.inputs import STEPS

# They hand sizes of tensors to operators, and a trace keeps them as numbers.
WARN = {
    "warp_affine",
    "warp_affine size",
    "letterbox unletterbox_boxes get_affine_matrix get_rotation_matrix2d warp_affine",
    "augment",
    "conv2d integers",
    "convolve2d",
    "correlate2d",
    "filter2d",
    "gaussian_blur",
    "box_blur",
    "sobel",
    "MultiScaleDeformableAttention",
    "remap displacement_field",
    "multi_scale_deformable_attention",
    "multi_scale_deformable_attention shapes",
}
# Here Python has made numbers of them before.
KEEP_SIZES = {
    *WARN,
    "nms at most",
    "roi_align max",
    "col2im",
    "pack_masks mask_area mask_iou masks_to_boxes",
    "mask_nms mask_iou merge_masks stability_score",
}


@pytest.mark.parametrize("name", CASES)
def test_trace(name: str) -> None:
    case = CASES[name]
    inputs = case.inputs(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced = torch.jit.trace(Call(case.call), inputs, check_trace=False)
    warned = [str(w.message) for w in caught if w.category.__name__ == "TracerWarning"]
    assert any("the trace keeps the size" in message for message in warned) == (name in WARN)
    for step in STEPS[: 1 if name in KEEP_SIZES else None]:
        inputs = case.inputs(step)
        found, expected = leaves(traced(*inputs)), leaves(case.call(*inputs))
        assert len(found) == len(expected)
        assert all(same_bits(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_script_is_refused() -> None:
    with pytest.raises((RuntimeError, torch.jit.frontend.FrontendError)):
        torch.jit.script(Call(CASES["nms"].call))


class Warp(torch.nn.Module):
    """A layer whose matrix is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.tensor([[0.9, 0.1, 0.3], [-0.1, 0.9, 0.7]]))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return visops.warp_affine(image, self.matrix)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace", "ignore::torch.jit.TracerWarning")
def test_trace_of_parameters_keeps_the_operator() -> None:
    # Eager calls go through an autograd.Function, which a trace would hold as opaque Python.
    image = torch.rand(1, 2, 6, 7)
    layer = Warp()
    traced = torch.jit.trace(layer, (image,), check_trace=False)
    kinds = [node.kind() for node in traced.inlined_graph.nodes()]
    assert "visops::affine" in kinds
    assert "prim::PythonOp" not in kinds
    result = traced(image)
    assert same_bits(result.detach(), layer(image).detach())
    assert result.requires_grad
