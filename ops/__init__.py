"""PyTorch operators for vision: one pass, one build, one answer."""

# What this file needs for itself has an underscore: the package's names are its users'.
import importlib as _importlib
import typing as _typing

from ._command import parse_early as _parse_early

_parse_early()  # before anything that takes long to import

from ._loader import load_library as _load_library
from ._loader import native_error as _native_error

_load_library()

# All that a family's `__all__` names is public here.
from ._build import version as _version
from ._info import build_info as build_info
from ._info import cmake_prefix_path as cmake_prefix_path
from .boxes import *
from .convolution import *
from .deformable import *
from .jpeg import *
from .losses import *
from .masks.functions import *
from .roi import *
from .suppression import *
from .warp import *

__version__ = _version

# What imports torchvision, where it is installed, is imported when it is asked for.
_ON_FIRST_USE = {
    "DeformConv2d": "deformable.conv2d_module",
    "MultiScaleRoIAlign": "roi.multiscale_module",
    "PSRoIAlign": "roi.modules",
    "RoIAlign": "roi.modules",
    "RoIPool": "roi.modules",
}

if _typing.TYPE_CHECKING:
    from . import compare as compare
    from . import compat as compat
    from . import infer as infer
    from . import onnx as onnx
    from . import transforms as transforms
    from .deformable.conv2d_module import DeformConv2d as DeformConv2d
    from .roi.modules import PSRoIAlign as PSRoIAlign
    from .roi.modules import RoIAlign as RoIAlign
    from .roi.modules import RoIPool as RoIPool
    from .roi.multiscale_module import MultiScaleRoIAlign as MultiScaleRoIAlign
else:  # type checkers can't follow this list, and take the names from the imports
    _FAMILIES = (boxes, convolution, deformable, jpeg, losses, masks.functions, roi)
    _FAMILIES += (suppression, warp)
    __all__ = sorted(
        [
            *("__version__", "build_info", "cmake_prefix_path", "compat", "transforms"),
            *_ON_FIRST_USE,
            *(name for family in _FAMILIES for name in family.__all__),
        ]
    )

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


# Names that detectron2, mmcv, Segment Anything and torchvision have.
_NAMES_ELSEWHERE = {
    "SigmoidFocalLoss": "sigmoid_focal_loss, or visops.compat.mmcv",
    "box_convert": "torchvision.ops.box_convert",
    "calculate_stability_score": "stability_score",
    "modulated_deform_conv2d": "deform_conv2d(..., mask=mask), or visops.compat.mmcv",
    "paste_masks_in_image": "paste_masks",
    "scale_boxes": "unletterbox_boxes",
}

# Imported when they are asked for: they take as long as all the rest, and torchvision takes longer.
_LAZY_MODULES = ("compare", "compat", "infer", "onnx", "transforms")


def __getattr__(name: str) -> _typing.Any:
    if name in _LAZY_MODULES:
        return _importlib.import_module(f".{name}", __name__)
    module = _ON_FIRST_USE.get(name)
    if module is None:
        # Classes of transforms are looked for here by all who come from torchvision's `T`.
        looked_for = not name.startswith("_") and _native_error is None
        transforms = vars(__getattr__("transforms")) if looked_for else {}
        hint = f"; use visops.transforms.{name}" if name in transforms.get("__all__", ()) else ""
        spelt = {own.lower(): own for own in globals()["__all__"]}.get(name.lower())
        if instead := _NAMES_ELSEWHERE.get(name) or spelt:
            hint = f"; use {instead}"
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    return getattr(_importlib.import_module(f"{__name__}.{module}"), name)
