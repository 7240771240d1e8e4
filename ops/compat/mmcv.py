"""mmcv's compiled extension, ``mmcv._ext``, made of this library's operators.

mmcv's Python is installed everywhere by ``pip install mmcv-lite``. Its ``mmcv.ops`` need an
extension that has no wheels for today's torch and takes long to compile. :func:`install` puts one
in its place, and mmcv and mmdetection run unchanged. Without them, this module has the functions
and layers of ``mmcv.ops`` that need no more than this extension, mmcv's own Python around it:
``from visops.compat.mmcv import batched_nms``.
"""

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .mmcv_extension import FUNCTIONS

__all__ = ["install"]

# Names of mmcv.ops that need no other functions of the extension.
_OF_OPS = (
    *("ConvTranspose2d", "Conv2d", "CrissCrossAttention", "DeformConv2d", "DeformConv2dPack"),
    *("Linear", "MaxPool2d", "ModulatedDeformConv2d", "ModulatedDeformConv2dPack"),
    *("MultiScaleDeformableAttention", "RoIAlign", "RoIAlignRotated", "RoIPool", "SAConv2d"),
    *("SigmoidFocalLoss", "SimpleRoIAlign", "SoftmaxFocalLoss", "batched_nms", "bbox_overlaps"),
    *("box_iou_rotated", "deform_conv2d", "get_compiler_version", "get_compiling_cuda_version"),
    *("modulated_deform_conv2d", "nms", "nms_match", "nms_rotated", "point_sample"),
    *("rel_roi_point_to_rel_img_point", "roi_align", "roi_align_rotated", "roi_pool"),
    *("sigmoid_focal_loss", "soft_nms", "softmax_focal_loss"),
)
# What else does the work of those that are not there.
_INSTEAD = {
    "SyncBatchNorm": "torch.nn.SyncBatchNorm",
    "boxes_iou_bev": "box_iou_rotated",
    "chamfer_distance": "torch.cdist",
    "diff_iou_rotated_2d": "visops.box_iou_rotated, which has gradients",
    "knn": "torch.cdist and topk",
    "min_area_polygons": "cv2.minAreaRect",
    "nms_bev": "nms_rotated",
}


def install() -> ModuleType:
    """Put an extension made of visops in the place of ``mmcv._ext``.

    Call it before ``mmcv.ops`` is imported, as mmdetection does. What the extension lacks
    raises an error when it is called, which names it.

    Returns
    -------
    module
        The extension.

    Raises
    ------
    ImportError
        mmcv isn't installed, or ``mmcv.ops`` runs on another extension already.

    Notes
    -----
    There are: ``nms``, ``softnms``, ``nms_match``, ``nms_rotated``, ``bbox_overlaps``,
    ``box_iou_rotated``, ``roi_align``, ``roi_pool``, ``roi_align_rotated``, ``deform_conv``,
    ``modulated_deform_conv``, ``ms_deform_attn``, ``sigmoid_focal_loss``, ``softmax_focal_loss``,
    forward and backward, on the CPU and CUDA. Names and arguments are those of mmcv 2.

    Examples
    --------
    >>> import importlib.util
    >>> from visops.compat import mmcv
    >>> if importlib.util.find_spec("mmcv") is not None:  # pip install mmcv-lite
    ...     extension = mmcv.install()
    ...     from mmcv.ops import RoIAlign, batched_nms
    """
    try:
        package = importlib.import_module("mmcv")
    except ModuleNotFoundError as error:
        if error.name != "mmcv":
            raise
        raise ImportError(
            "visops.compat.mmcv.install: mmcv is not installed; its Python is enough: "
            "pip install mmcv-lite"
        ) from None
    there = sys.modules.get("mmcv._ext")
    if there is not None and not isinstance(there, _Extension):
        file = getattr(there, "__file__", None)
        raise ImportError(
            f"visops.compat.mmcv.install: mmcv.ops runs on the extension in {file} already; call "
            "install() before mmcv.ops is imported"
        )
    if there is None:
        there = sys.modules["mmcv._ext"] = _Extension("mmcv._ext", __doc__)
        package._ext = there  # type: ignore[attr-defined]
    return there


class _Extension(ModuleType):
    """Has the functions that are there, and for every other name one that says what is missing."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        function = FUNCTIONS.get(name)
        if function is not None:
            return function

        def missing(*_: Any, **__: Any) -> Any:
            have = ", ".join(sorted(FUNCTIONS))
            raise RuntimeError(
                f"visops.compat.mmcv: mmcv._ext.{name} is not there; what is: {have}"
            )

        return missing


def __getattr__(name: str) -> Any:
    if name in _OF_OPS:
        install()
        return getattr(importlib.import_module("mmcv.ops"), name)
    if name.startswith("__"):
        raise AttributeError(name)
    hint = f"use {_INSTEAD[name]}" if name in _INSTEAD else f"what is: {', '.join(_OF_OPS)}"
    raise AttributeError(f"visops.compat.mmcv: {name} is not there; {hint}")


def __dir__() -> list[str]:
    return [*__all__, *_OF_OPS]
