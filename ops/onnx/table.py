"""The table of translations: every operator's name, and what writes it or why nothing can."""

import importlib
from collections.abc import Callable
from typing import Any

import torch

# The module of this package with a function of the operator's name.
_TRANSLATED = {
    "affine": "warp",
    "augment": "warp",
    "augment_list": "warp",
    "batched_nms": "suppression",
    "box_iou": "boxes",
    "col2im": "columns",
    "conv2d": "convolution",
    "convolve2d": "convolution",
    "crop_rois": "roi",
    "im2col": "columns",
    "multi_scale_deformable_attention": "deformable",
    "multiscale_roi_align": "roi",
    "nms": "suppression",
    "nms_match": "suppression",
    "nms_padded": "suppression",
    "point_sample": "deformable",
    "ps_roi_align": "roi",
    "roi_align": "roi",
    "roi_align_max": "roi",
    "roi_pool": "roi",
}

_ON_ARRAYS = "make its arguments outputs of the model, and call visops.{} on the arrays that come"
_ITS_ARGUMENTS = "ONNX has no operator for it; " + _ON_ARRAYS

# Why the others can't be written, and the way out.
_REFUSED = {
    "batched_soft_nms": _ITS_ARGUMENTS.format("batched_soft_nms") + ", or use batched_nms",
    "box_iou_rotated": _ITS_ARGUMENTS.format("box_iou_rotated"),
    "component_stats": "ONNX has no operator for it; " + _ON_ARRAYS.format("connected_components"),
    "connected_components": _ITS_ARGUMENTS.format("connected_components"),
    "deform_conv2d": "ONNX has DeformConv from opset 19 on, and this table writes opset 18; "
    + _ON_ARRAYS.format("deform_conv2d"),
    "distance_transform": _ITS_ARGUMENTS.format("distance_transform"),
    "mask_boundaries": "ONNX has no operator for it; " + _ON_ARRAYS.format("mask_iou"),
    "mask_iou": _ITS_ARGUMENTS.format("mask_iou"),
    "match_cost": _ITS_ARGUMENTS.format("match_cost"),
    "masks_to_runs": "ONNX has no operator for it; " + _ON_ARRAYS.format("masks_to_rle"),
    "matrix_nms": _ITS_ARGUMENTS.format("matrix_nms"),
    "measure_masks": "ONNX has no operator for it; "
    + _ON_ARRAYS.format("mask_area or masks_to_boxes"),
    "merge_masks": _ITS_ARGUMENTS.format("merge_masks"),
    "nms_rotated": _ITS_ARGUMENTS.format("nms_rotated"),
    "non_maximum_weighted": _ITS_ARGUMENTS.format("non_maximum_weighted"),
    "pack_masks": _ITS_ARGUMENTS.format("pack_masks"),
    "paste_binary_masks": "ONNX has no operator for it; " + _ON_ARRAYS.format("paste_masks"),
    "paste_masks": _ITS_ARGUMENTS.format("paste_masks"),
    "paste_rois": _ITS_ARGUMENTS.format("paste_rois"),
    "remap": _ITS_ARGUMENTS.format("remap")
    + ", or export the model with grid_sample at its positions",
    "remove_small_regions": _ITS_ARGUMENTS.format("remove_small_regions"),
    "roi_align_rotated": "ONNX has no operator for it; pool upright boxes with roi_align, or "
    "deploy the model with AOTInductor, which takes every operator",
    "runs_to_bits": "ONNX has no operator for it; " + _ON_ARRAYS.format("rle_to_masks"),
    "soft_nms": _ITS_ARGUMENTS.format("soft_nms") + ", or use nms",
    "soft_nms_rotated": _ITS_ARGUMENTS.format("soft_nms_rotated"),
    "stability_score": _ITS_ARGUMENTS.format("stability_score"),
    "suppress_masks": "ONNX has no operator for it; " + _ON_ARRAYS.format("mask_nms"),
    "unpack_masks": "ONNX has no operator for it; " + _ON_ARRAYS.format("masks.PackedMasks.unpack"),
    "weighted_boxes_fusion": _ITS_ARGUMENTS.format("weighted_boxes_fusion"),
    "weighted_boxes_fusion_3d": _ITS_ARGUMENTS.format("weighted_boxes_fusion_3d"),
}
_WRITES = "it writes into an argument; call the function without out"
_GRADIENT = "it is a gradient; export the model in eval() and under torch.no_grad()"


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return translations of this library's operators for ``torch.onnx.export``.

    Functions that are composed of torch's operators, such as :func:`visops.transform_boxes`, need
    no translation. The page on export says what becomes of each operator, and how near ONNX Runtime
    comes to its values.

    Returns
    -------
    dict
        Functions by operator, for the argument ``custom_translation_table``. They write opset 18;
        ``torch.onnx.export`` converts that to later ones. A function raises NotImplementedError for
        an operator, or an argument, that ONNX can't express; its message says what to do instead.

    Raises
    ------
    ImportError
        onnx or onnxscript is not installed.

    Examples
    --------
    >>> import torch, visops, visops.onnx
    >>> class Pool(torch.nn.Module):
    ...     def forward(self, maps, boxes):
    ...         return visops.roi_align(maps, boxes, 7, 1 / 16, 2, aligned=True)
    >>> maps, boxes = torch.rand(1, 8, 20, 30), torch.tensor([[0.0, 40, 50, 200, 300]] * 3)
    >>> program = torch.onnx.export(
    ...     Pool().eval(),
    ...     (maps, boxes),
    ...     dynamo=True,
    ...     dynamic_shapes=({0: "images", 2: "height", 3: "width"}, {0: "boxes"}),
    ...     custom_translation_table=visops.onnx.translation_table(),
    ...     verbose=False,
    ... )
    >>> [node.op_type for node in program.model.graph if node.op_type == "RoiAlign"]
    ['RoiAlign']
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"visops.onnx.translation_table: {error}; run: pip install onnx onnxscript"
        ) from None
    return {getattr(torch.ops.visops, name).default: _translation(name) for name in _operators()}


def _operators() -> list[str]:
    """Return the names of this library's operators on tensors."""
    names = [n.removeprefix("visops::") for n in torch._C._dispatch_get_all_op_names()]
    qualified = zip(torch._C._dispatch_get_all_op_names(), names, strict=True)
    ours = {short for name, short in qualified if name.startswith("visops::")}
    return sorted(ours - {"build_info"})


def _translation(name: str) -> Callable[..., Any]:
    """Return what the exporter calls with the arguments of a node."""
    schema = getattr(torch.ops.visops, name).default._schema
    if name in _TRANSLATED:
        module = importlib.import_module(f".{_TRANSLATED[name]}", __package__)
        write = getattr(module, name)
    else:
        reason = _REFUSED.get(name) or (_WRITES if name.endswith("_out") else _GRADIENT)

        def write(**_: Any) -> Any:
            raise NotImplementedError(f"visops.{name}: ONNX can't express this: {reason}")

    def translate(*given, **named):  # type: ignore[no-untyped-def]
        # No annotations: the exporter would read them as types of ONNX's.
        from .graph import from_graph, to_graph

        values = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        names = [argument.name for argument in schema.arguments]
        values.update(zip(names, given, strict=False), **named)
        return to_graph(write(**{key: from_graph(value) for key, value in values.items()}))

    translate.__name__ = f"visops_{name}"
    return translate
