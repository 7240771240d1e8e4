"""visops.compat.mmcv: the extension that mmcv's Python calls, with mmcv's names and formulas."""

import sys
from types import ModuleType
from typing import Any

import pytest
import torch
import visops
from torch import Tensor
from visops.compat import mmcv

BOXES = torch.tensor([[0.0, 0, 9, 9], [1, 1, 10, 10], [20, 0, 29, 9], [20, 0, 29, 8]])
SCORES = torch.tensor([0.9, 0.8, 0.6, 0.7])
ROTATED = torch.cat([BOXES[:, :2] + 5, BOXES[:, 2:] / 2 + 1, SCORES[:, None]], 1)
ROIS = torch.tensor([[0.0, 1, 1, 9, 8], [1, 0, 2, 7, 10]])


@pytest.fixture
def extension(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What install() puts in place, for a package mmcv without anything in it."""
    monkeypatch.setitem(sys.modules, "mmcv", ModuleType("mmcv"))
    monkeypatch.delitem(sys.modules, "mmcv._ext", raising=False)
    yield mmcv.install()
    sys.modules.pop("mmcv._ext", None)


def test_install(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mmcv.install() is extension is sys.modules["mmcv._ext"] is sys.modules["mmcv"]._ext
    assert hasattr(extension, "carafe_forward")  # mmcv asks for all names when it is imported
    with pytest.raises(RuntimeError, match=r"mmcv\._ext\.carafe_forward is not there; what is: bb"):
        extension.carafe_forward(1, 2)
    monkeypatch.setitem(sys.modules, "mmcv._ext", ModuleType("mmcv._ext"))
    with pytest.raises(ImportError, match=r"on the extension in None already; call install\(\) be"):
        mmcv.install()


def test_without_mmcv(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mmcv", None)
    with pytest.raises(ImportError, match=r"mmcv is not installed; .*: pip install mmcv-lite"):
        mmcv.install()


def test_names_of_ops(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs no other functions of the extension is mmcv's own; the rest says what to use."""
    ops = ModuleType("mmcv.ops")
    ops.batched_nms = print  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mmcv.ops", ops)
    monkeypatch.delitem(sys.modules, "mmcv._ext")
    assert visops.compat.mmcv.batched_nms is print
    assert isinstance(sys.modules["mmcv._ext"], type(extension))
    for name, hint in (("nms_bev", "use nms_rotated"), ("CARAFE", "what is: ConvTranspose2d, ")):
        with pytest.raises(
            AttributeError, match=f"^visops.compat.mmcv: {name} is not there; {hint}"
        ):
            getattr(mmcv, name)


def test_mmcv_s_own_names() -> None:
    """With mmcv-lite: all names that are promised are there, and compute."""
    pytest.importorskip("mmcv")
    for name in dir(mmcv):
        assert getattr(mmcv, name) is not None
    dets, kept = mmcv.batched_nms(BOXES, SCORES, torch.tensor([0, 0, 1, 1]), {"iou_threshold": 0.5})
    assert torch.equal(kept, visops.batched_nms(BOXES, SCORES, torch.tensor([0, 0, 1, 1]), 0.5))
    assert torch.equal(dets, torch.cat([BOXES, SCORES[:, None]], 1)[kept])
    image = torch.rand(2, 4, 12, 12)
    layer = mmcv.RoIAlign(output_size=3, spatial_scale=0.5, sampling_ratio=2)
    assert torch.equal(layer(image, ROIS), visops.roi_align(image, ROIS, 3, 0.5, 2, aligned=True))
    assert mmcv.ModulatedDeformConv2dPack(4, 6, 3, padding=1)(image).shape == (2, 6, 12, 12)


def test_rooms() -> None:
    """The names of Deformable DETR and of python_cpp_extension, apart and together."""
    detr, old, flat = visops.compat.deformable_detr, visops.compat.cpp_extension, visops.compat
    assert detr.MSDeformAttnFunction is flat.MultiScaleDeformableAttnFunction
    assert detr.ms_deform_attn_core_pytorch is flat.multi_scale_deformable_attn_pytorch
    assert all(getattr(flat, name) is getattr(old, name) for name in old.__all__)


@pytest.mark.parametrize("offset", [0, 1])
def test_suppression(extension: Any, offset: int) -> None:
    """With an offset of 1 the last pixel of a box counts, as in mmcv 1."""
    method: Any
    wide = BOXES + torch.tensor([0, 0, offset, offset])
    found = extension.nms(BOXES, SCORES, iou_threshold=0.55, offset=offset)
    assert torch.equal(found, visops.nms(wide, SCORES, 0.55))
    for number, method in enumerate(("hard", "linear", "gaussian")):
        dets = BOXES.new_empty(4, 5)
        inds = extension.softnms(BOXES, SCORES, dets, 0.3, 0.5, 0.1, method=number, offset=offset)
        kept, scores = visops.soft_nms(
            wide, SCORES, method=method, iou_threshold=0.3, sigma=0.5, min_score=0.1
        )
        assert torch.equal(inds, kept)
        assert torch.equal(dets[: len(inds)], torch.cat([BOXES[kept], scores[:, None]], 1))
    dets = torch.cat([BOXES, SCORES[:, None]], 1)
    assert extension.nms_match(dets, 0.5) == [[0, 1], [3, 2]]


def test_rotated_suppression(extension: Any) -> None:
    order = SCORES.argsort(descending=True)
    arguments = ROTATED, SCORES, order, ROTATED[order]
    found = extension.nms_rotated(*arguments, SCORES.new_empty(0), 0.1, False)
    assert torch.equal(found, visops.nms_rotated(ROTATED, SCORES, 0.1))
    labels = torch.tensor([0, 1, 0, 1])
    with_labels = torch.cat([ROTATED, labels[:, None]], 1)
    found = extension.nms_rotated(with_labels, SCORES, order, with_labels[order], labels, 0.1, True)
    assert torch.equal(found, visops.nms_rotated(ROTATED, SCORES, 0.1, idxs=labels))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize(("mode", "kind"), [(0, "iou"), (1, "iof")])
def test_overlaps(extension: Any, mode: int, kind: Any, aligned: bool) -> None:
    size = (4,) if aligned else (4, 4)
    ious = torch.empty(size)
    extension.bbox_overlaps(BOXES, BOXES.flip(0), ious, mode=mode, aligned=aligned, offset=0)
    assert torch.equal(ious, visops.box_iou(BOXES, BOXES.flip(0), kind=kind, aligned=aligned))
    flat = torch.empty(4 if aligned else 16)
    others = ROTATED.flip(0)
    extension.box_iou_rotated(ROTATED, others, flat, mode_flag=mode, aligned=aligned)
    expected = visops.box_iou_rotated(ROTATED, others, kind=kind, aligned=aligned)
    assert torch.equal(flat, expected.flatten())


def gradient(call: Any, leaf: Tensor, grad: Tensor) -> Tensor:
    leaf = leaf.clone().requires_grad_()
    return torch.autograd.grad(call(leaf), leaf, grad)[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize(("mode", "reduce"), [(0, "max"), (1, "mean")])
def test_roi_align(extension: Any, mode: int, reduce: Any, dtype: torch.dtype) -> None:
    maps = torch.rand(2, 3, 12, 11, dtype=dtype)
    rois, grad = ROIS.to(dtype), torch.rand(2, 3, 2, 3, dtype=dtype)
    options = {"aligned_height": 2, "aligned_width": 3, "spatial_scale": 0.5, "sampling_ratio": 40}
    options |= {"pool_mode": mode, "aligned": True}
    output, at_y, at_x = (maps.new_zeros(2, 3, 2, 3) for _ in range(3))
    extension.roi_align_forward(maps, rois, output, at_y, at_x, **options)

    def ours(maps: Tensor) -> Tensor:
        return visops.roi_align(maps, rois, (2, 3), 0.5, 40, True, reduce=reduce)

    assert torch.equal(output, ours(maps))
    grad_input = torch.zeros_like(maps)
    extension.roi_align_backward(grad, rois, at_y, at_x, grad_input, **options)
    assert torch.equal(grad_input, gradient(ours, maps, grad))


def test_other_pooling(extension: Any) -> None:
    maps, grad = torch.rand(2, 3, 12, 11), torch.rand(2, 3, 2, 3)
    output, argmax = torch.empty(2, 3, 2, 3), torch.empty(2, 3, 2, 3, dtype=torch.int)
    size = {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.5}
    extension.roi_pool_forward(maps, ROIS, output, argmax, **size)

    def pooled(maps: Tensor) -> Tensor:
        return visops.roi_pool(maps, ROIS, (2, 3), 0.5)

    assert torch.equal(output, pooled(maps))
    grad_input = torch.zeros_like(maps)
    extension.roi_pool_backward(grad, ROIS, argmax, grad_input, **size)
    assert torch.equal(grad_input, gradient(pooled, maps, grad))

    turned = torch.cat([ROIS, torch.tensor([[0.3], [-1.0]])], 1)
    options = {**size, "sampling_ratio": 2, "aligned": True, "clockwise": True}
    extension.roi_align_rotated_forward(maps, turned, output, **options)

    def rotated(maps: Tensor) -> Tensor:
        return visops.roi_align_rotated(maps, turned, (2, 3), 0.5, 2, aligned=True, clockwise=True)

    assert torch.equal(output, rotated(maps))
    extension.roi_align_rotated_backward(grad, turned, grad_input, **options)
    assert torch.equal(grad_input, gradient(rotated, maps, grad))


@pytest.mark.parametrize("modulated", [False, True])
def test_deformable_convolution(extension: Any, modulated: bool) -> None:
    input, weight = torch.rand(2, 4, 9, 8), torch.rand(6, 2, 3, 3)
    offset, bias = torch.rand(2, 18, 5, 8), torch.rand(6)
    mask = torch.rand(2, 9, 5, 8) if modulated else None
    grad, leaves = torch.rand(2, 6, 5, 8), [input, offset, weight]
    leaves += [mask, bias] if mask is not None else []
    leaves = [leaf.requires_grad_() for leaf in leaves]
    own_bias = bias if modulated else None
    steps = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
    expected = visops.deform_conv2d(input, offset, weight, own_bias, **steps, mask=mask)  # type: ignore[arg-type]
    wanted = torch.autograd.grad(expected, leaves, grad)
    output, empty = torch.empty_like(expected), input.new_empty(0)
    found = [torch.zeros_like(leaf) for leaf in leaves]
    with torch.no_grad():
        if mask is not None:
            options = {"kernel_h": 3, "kernel_w": 3, "stride_h": 2, "stride_w": 1, "pad_h": 1}
            options |= {"pad_w": 2, "dilation_h": 1, "dilation_w": 2, "group": 2}
            options |= {"deformable_group": 1, "with_bias": True}
            first = (input, weight, bias, empty, offset, mask)
            extension.modulated_deform_conv_forward(*first, output, empty, **options)
            to_input, to_offset, to_weight, to_mask, to_bias = found
            grads = to_input, to_weight, to_bias, to_offset, to_mask
            extension.modulated_deform_conv_backward(*first, empty, *grads, grad, **options)
        else:
            options = {"kW": 3, "kH": 3, "dW": 1, "dH": 2, "padW": 2, "padH": 1, "dilationW": 2}
            options |= {"dilationH": 1, "group": 2, "deformable_group": 1, "im2col_step": 2}
            extension.deform_conv_forward(input, weight, offset, output, empty, empty, **options)
            extension.deform_conv_backward_input(
                input, offset, grad, found[0], found[1], weight, empty, **options
            )
            rest = found[2], empty, empty
            extension.deform_conv_backward_parameters(
                input, offset, grad, *rest, scale=1, **options
            )
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_attention(extension: Any) -> None:
    value, shapes = torch.rand(2, 26, 2, 4), torch.tensor([[4, 5], [2, 3]])
    starts, points = torch.tensor([0, 20]), torch.rand(2, 7, 2, 2, 3, 2)
    weights, grad = torch.rand(2, 7, 2, 2, 3), torch.rand(2, 7, 8)
    given = value, shapes, starts, points, weights
    leaves = [leaf.requires_grad_() for leaf in (value, points, weights)]
    expected = visops.multi_scale_deformable_attention(value, shapes, points, weights)
    wanted = torch.autograd.grad(expected, leaves, grad)
    found = [torch.empty_like(leaf) for leaf in leaves]
    with torch.no_grad():
        assert torch.equal(extension.ms_deform_attn_forward(*given, im2col_step=64), expected)
        extension.ms_deform_attn_backward(*given, grad, *found, im2col_step=64)
    assert all(map(torch.equal, found, wanted))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0, 1.5])
def test_sigmoid_focal_loss(extension: Any, gamma: float, weighted: bool) -> None:
    """Lin et al., 2017: -alpha_t (1 - p_t)^gamma log(p_t); class C is the background."""
    input = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    target = torch.arange(9) % 5
    weight = torch.rand(5, dtype=torch.float64) if weighted else input.new_empty(0)
    one_hot = torch.nn.functional.one_hot(target, 5)[:, :4].bool()
    p = torch.where(one_hot, input.sigmoid(), 1 - input.sigmoid())
    expected = -torch.where(one_hot, 0.25, 0.75) * (1 - p) ** gamma * p.log()
    expected = expected * weight[target][:, None] if weighted else expected
    output, grad = torch.empty_like(input), torch.empty_like(input)
    with torch.no_grad():
        arguments = (input, target, weight)
        extension.sigmoid_focal_loss_forward(*arguments, output, gamma=gamma, alpha=0.25)
        extension.sigmoid_focal_loss_backward(*arguments, grad, gamma=gamma, alpha=0.25)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), input)[0])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0, 1.5])
def test_softmax_focal_loss(extension: Any, gamma: float, weighted: bool) -> None:
    """The loss is of the target's probability; -1 is no target."""
    input = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    target = torch.arange(9) % 5 - 1
    weight = torch.rand(4, dtype=torch.float64) if weighted else input.new_empty(0)
    softmax, there = input.softmax(1), target >= 0
    p = softmax.gather(1, target.clamp(min=0)[:, None])[:, 0]
    expected = -0.25 * there * (1 - p) ** gamma * p.log()
    expected = expected * weight[target.clamp(min=0)] if weighted else expected
    output, buff, grad = p.new_empty(9), p.new_empty(9), torch.empty_like(input)
    with torch.no_grad():
        arguments = (softmax, target, weight)
        extension.softmax_focal_loss_forward(*arguments, output, gamma=gamma, alpha=0.25)
        extension.softmax_focal_loss_backward(*arguments, buff, grad, gamma=gamma, alpha=0.25)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(grad, torch.autograd.grad(expected.sum(), input)[0])


def test_extreme_logits_have_finite_losses(extension: Any) -> None:
    input, target = torch.tensor([[200.0, -200.0], [-200.0, 200.0]]), torch.tensor([1, 1])
    for name in ("sigmoid", "softmax"):
        given = input if name == "sigmoid" else input.softmax(1)
        output = torch.empty(2, 2) if name == "sigmoid" else torch.empty(2)
        grad, empty = torch.empty(2, 2), torch.empty(0)
        rest = (grad,) if name == "sigmoid" else (torch.empty(2), grad)
        loss = getattr(extension, f"{name}_focal_loss_forward")
        slope = getattr(extension, f"{name}_focal_loss_backward")
        loss(given, target, empty, output, gamma=2.0, alpha=0.25)
        slope(given, target, empty, *rest, gamma=2.0, alpha=0.25)
        assert output.isfinite().all()
        assert grad.isfinite().all()
