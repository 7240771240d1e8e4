"""Names of ``torchvision.transforms.v2`` that this package doesn't have itself.

Those that run in a chain as they are, sample by sample, are torchvision's own classes under the
same name, so that a recipe ports by changing its import. Others say what to use instead.
"""

import importlib
import importlib.util
from typing import Any

# torchvision's own, which a chain runs outside its passes.
BORROWED = frozenset(
    (
        *("ClampKeyPoints", "InterpolationMode"),
        *("Lambda", "RGB", "SetClampingMode"),
    )
)
# What can't run in a chain, or isn't needed there, and what to use.
_INSTEAD = {
    "functional": "visops.augment, visops.warp_affine and torchvision.transforms.v2.functional",
    "ToTensorV2": "nothing: a chain returns tensors (ToDtype converts them)",
    "HorizontalFlip": "RandomHorizontalFlip",
    "VerticalFlip": "RandomVerticalFlip",
    "LongestMaxSize": "Letterbox or Resize(size, max_size=...)",
    "SmallestMaxSize": "Resize(size)",
    "Rotate": "RandomRotation",
    "Affine": "RandomAffine",
    "ShiftScaleRotate": "RandomAffine",
    "Perspective": "RandomPerspective",
    "OneOf": "RandomChoice",
    "Sequential": "Compose",
}


def find(name: str) -> Any:
    """Return torchvision's class of a name.

    Raises
    ------
    AttributeError
        There is none that a chain can run, or torchvision isn't installed; the message says what to
        use instead.
    """
    if name in BORROWED:
        if importlib.util.find_spec("torchvision") is not None:
            return getattr(importlib.import_module("torchvision.transforms.v2"), name)
        reason = f"visops.transforms.{name} is torchvision's own, and torchvision isn't installed"
        raise AttributeError(reason)
    instead = _INSTEAD.get(name)
    hint = "" if instead is None else f"; use {instead}"
    raise AttributeError(f"module 'visops.transforms' has no attribute {name!r}{hint}")
