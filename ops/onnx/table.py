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

# Public functions whose operators have other names.
_FUNCTIONS = {
    "add_grey_means": "transforms.Compose",
    "adjust_pixels": "transforms.Compose",
    "component_stats": "connected_components",
    "filter_separable": "transforms.Compose",
    "mask_boundaries": "mask_iou",
    "masks_to_runs": "masks_to_rle",
    "measure_masks": "mask_area or masks_to_boxes",
    "paste_binary_masks": "paste_masks",
    "runs_to_bits": "rle_to_masks",
    "suppress_masks": "mask_nms",
    "unpack_masks": "masks.PackedMasks.unpack",
}
_NONE = "ONNX has no operator for it; "
_ON_ARRAYS = "make its arguments outputs of the model, and call visops.{} on the arrays that come"
# Further ways out, and where there is another reason.
_OR = {
    "batched_soft_nms": "use batched_nms",
    "remap": "export the model with grid_sample at its positions",
    "soft_nms": "use nms",
}
_REFUSED = {
    "deform_conv2d": "ONNX has DeformConv from opset 19 on, and this table writes opset 18; "
    + _ON_ARRAYS.format("deform_conv2d"),
    "roi_align_rotated": f"{_NONE}pool upright boxes with roi_align, or deploy the model with "
    "AOTInductor, which takes every operator",
    "sigmoid_focal_loss": f"{_NONE}it is a loss: export the model without it",
}
_OF_GRADIENTS = ("convolve2d_fold", "roi_align_max_at", "roi_pool_at")
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


def _reason(name: str) -> str:
    """Return why an operator can't be written, and the way out."""
    if name.endswith("_out"):
        return _WRITES
    if "_backward" in name or name in _OF_GRADIENTS:
        return _GRADIENT
    if name in _REFUSED:
        return _REFUSED[name]
    further = f", or {_OR[name]}" if name in _OR else ""
    return _NONE + _ON_ARRAYS.format(_FUNCTIONS.get(name, name)) + further


def _translation(name: str) -> Callable[..., Any]:
    """Return what the exporter calls with the arguments of a node."""
    schema = getattr(torch.ops.visops, name).default._schema
    if name in _TRANSLATED:
        module = importlib.import_module(f".{_TRANSLATED[name]}", __package__)
        write = getattr(module, name)
    else:
        reason = _reason(name)

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
