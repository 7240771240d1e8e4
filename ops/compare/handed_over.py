"""Hands what our chain drew to the transforms of another library that it was converted from.

Their transforms ask a method of their own for parameters, and draw whether they are applied at all
by their attribute `p`. Both are replaced in an object, which must be the caller's own copy.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from ..transforms.recipes.convert import converted
from ..transforms.recipes.job import Job

Drawn = Mapping[str, Any]  # one sample's parameters of one transform, without their leading axis
Size = tuple[int, int]  # height and width of what a transform gets


def library_of(pipeline: Any) -> str:
    """Return whose transforms these are: torchvision, albumentations, or "own"."""
    if isinstance(pipeline, (list, tuple, nn.Sequential)):
        return next((name for each in pipeline if (name := library_of(each)) != "own"), "own")
    name = type(pipeline).__module__.partition(".")[0]
    return name if name in ("torchvision", "albumentations") else "own"


_CONTAINERS = ("Compose", "Sequential")


def leaves(pipeline: Any) -> list[Any]:
    """Return the transforms of a pipeline in their order.

    A container that may be left out as a whole is one of them.
    """
    if isinstance(pipeline, (list, tuple, nn.Sequential)):
        return [leaf for each in pipeline for leaf in leaves(each)]
    if type(pipeline).__name__ in _CONTAINERS and getattr(pipeline, "p", 1.0) >= 1.0:
        return leaves(list(pipeline.transforms))
    return [pipeline]


class Counterpart:
    """One of their transforms, and ours that do the same."""

    def __init__(self, theirs: Any) -> None:
        self.theirs = theirs
        self.ours = converted(theirs, Job(converted, fills_masks=True))
        self.name = type(theirs).__name__
        self.by_albumentations = library_of(theirs) == "albumentations"
        rules: Mapping[str, Any] = _ALBUMENTATIONS if self.by_albumentations else _TORCHVISION
        self.rule = rules.get(self.name)
        self.inner: list[Counterpart] = []
        if self.name == "RandomApply":
            self.inner = [Counterpart(leaf) for leaf in leaves(list(theirs.transforms))]

    @property
    def stays(self) -> bool:
        """Whether it runs in our chain as it is."""
        return any(step is self.theirs for step in self.ours)

    def takes(self, drawn: Sequence[Mapping[str, np.ndarray]]) -> bool:
        """Return whether the transform can be told all that ours drew."""
        if self.stays or self.name in _CONTAINERS:
            return False
        return all(self._takes(self._own(own)) for own in drawn)

    def _own(self, params: Mapping[str, np.ndarray]) -> Drawn:
        """Return the only sample's parameters, by the names of the transform itself."""
        own = {name: value[0] for name, value in params.items()}
        if not self.inner and type(self.ours[0]).__name__ == "RandomApply":  # theirs has a p
            return {**_of_child(own, 0), "apply": own["apply"]}
        return own

    def _takes(self, own: Drawn) -> bool:
        if self.inner:
            one_each = all(len(child.ours) == 1 for child in self.inner)
            return one_each and all(
                child._takes(_of_child(own, number)) for number, child in enumerate(self.inner)
            )
        if getattr(self.ours[0], "draws", None) == 0 or set(own) <= {"apply"}:
            return True
        return self.rule is not None and not self._is_refused()

    def _is_refused(self) -> bool:
        """Return whether the transform's arguments want more than its rule knows."""
        theirs = self.theirs
        if self.name == "RandomErasing":  # noise has its own numbers
            return isinstance(theirs.value, str) or theirs.value is None
        if self.name == "RandomCrop" and not self.by_albumentations:
            # The first version doesn't say how much it has padded.
            return ".v2" not in type(theirs).__module__ and bool(theirs.pad_if_needed)
        return False

    def hand_over(self, drawn: Sequence[Mapping[str, np.ndarray]]) -> None:
        """Let the transform do next what ours drew."""
        for own in drawn:
            self._hand_over(self._own(own))

    def _hand_over(self, own: Drawn) -> None:
        if "apply" in own:
            self.theirs.p = float(own["apply"])
        if self.inner:
            for number, child in enumerate(self.inner):
                child._hand_over(_of_child(own, number))
        elif self.rule is not None and self.by_albumentations:
            values = self.rule(self.theirs, own)
            self.theirs.get_params = dict
            self.theirs.get_params_dependent_on_data = lambda params, data: values
        elif self.rule is not None:
            _replace(self.theirs, own, self.rule)


def _of_child(own: Drawn, number: int) -> Drawn:
    """Return what RandomApply drew for one of its transforms: names begin with its number."""
    head = f"{number}_"
    return {name.removeprefix(head): own[name] for name in own if name.startswith(head)}


def _replace(theirs: Any, own: Drawn, rule: Callable[[Any, Drawn, Size], tuple[Any, Any]]) -> None:
    """Replace the method by which torchvision's second or first version draws."""
    if ".v2" in type(theirs).__module__:
        from torchvision.transforms.v2 import query_size

        theirs.make_params = lambda flat: rule(theirs, own, query_size(flat))[0]
    else:
        # Those of them that need a size are given width and height; others an image.
        def size(given: Sequence[Any]) -> Size:
            sides = [value for value in given[:2] if isinstance(value, int)]
            return (sides[1], sides[0]) if len(sides) == 2 else (0, 0)

        theirs.get_params = lambda *given, **named: rule(theirs, own, size(given))[1]


def _resized_crop(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    box = {name: int(own[name]) for name in ("top", "left", "height", "width")}
    return box, tuple(box.values())


def _crop(theirs: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    padding = theirs.padding or 0
    sides = [padding] if isinstance(padding, int) else list(padding)
    left, top, right, bottom = sides * (4 // len(sides))
    height, width = theirs.size
    if ".v2" in type(theirs).__module__:
        if theirs.padding is not None:  # left, right, top, bottom there
            left, right, top, bottom = theirs.padding
        if theirs.pad_if_needed:
            rows = max(height - size[0] - top - bottom, 0)
            columns = max(width - size[1] - left - right, 0)
            left, top, right, bottom = left + columns, top + rows, right + columns, bottom + rows
    box = {"top": int(own["top"]) + top, "left": int(own["left"]) + left}
    box |= {"height": height, "width": width}
    pads = {"needs_crop": True, "needs_pad": True, "padding": [left, top, right, bottom]}
    return {**pads, **box}, tuple(box.values())


def _rotation(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    return {"angle": float(own["angle"])}, float(own["angle"])


def _affine(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    values = {
        "angle": float(own.get("angle", 0.0)),
        "translate": (int(own.get("translate_x", 0)), int(own.get("translate_y", 0))),
        "scale": float(own.get("scale", 1.0)),
        "shear": (float(own.get("shear_x", 0.0)), float(own.get("shear_y", 0.0))),
    }
    return values, tuple(values.values())


def _perspective(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    from torchvision.transforms.functional import _get_perspective_coeffs

    right, bottom = size[1] - 1, size[0] - 1
    start = [[0, 0], [right, 0], [right, bottom], [0, bottom]]
    corners = ("topleft", "topright", "bottomright", "bottomleft")
    end = [[int(own[f"{corner}_{axis}"]) for axis in "xy"] for corner in corners]
    return {"coefficients": _get_perspective_coeffs(start, end)}, (start, end)


def _jitter(theirs: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    values: dict[str, Any] = {"fn_idx": torch.as_tensor(np.asarray(own["order"], np.int64))}
    for name in ("brightness", "contrast", "saturation", "hue"):
        values[f"{name}_factor"] = float(own[name]) if getattr(theirs, name) is not None else None
    return values, tuple(values.values())


def _erasing(theirs: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    value = theirs.value if isinstance(theirs.value, (list, tuple)) else [theirs.value]
    box = {
        short: int(own[name])
        for short, name in zip("ijhw", ("top", "left", "height", "width"), strict=True)
    }
    values = {**box, "v": torch.tensor(value, dtype=torch.float32)[:, None, None]}
    return values, tuple(values.values())


def _blur(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    return {"sigma": [float(own["sigma"])] * 2}, float(own["sigma"])


def _resize(_: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    return {"size": (int(own["height"]), int(own["width"]))}, None


def _zoom_out(theirs: Any, own: Drawn, size: Size) -> tuple[Any, Any]:
    theirs.p = 1.0  # what isn't applied has a canvas of the image's size
    left, top = int(own["left"]), int(own["top"])
    right, bottom = int(own["width"]) - left - size[1], int(own["height"]) - top - size[0]
    return {"padding": [left, top, right, bottom]}, None


_TORCHVISION: dict[str, Callable[[Any, Drawn, Size], tuple[Any, Any]]] = {
    "ColorJitter": _jitter,
    "GaussianBlur": _blur,
    "RandomAffine": _affine,
    "RandomCrop": _crop,
    "RandomErasing": _erasing,
    "RandomPerspective": _perspective,
    "RandomResize": _resize,
    "RandomResizedCrop": _resized_crop,
    "RandomRotation": _rotation,
    "RandomShortestSize": _resize,
    "RandomZoomOut": _zoom_out,
    "ScaleJitter": _resize,
}


def _a_crop(theirs: Any, own: Drawn) -> dict[str, Any]:
    left, top = int(own["left"]), int(own["top"])
    # RandomCrop's size is no parameter.
    width, height = (int(own.get(side, getattr(theirs, side, 0))) for side in ("width", "height"))
    return {"crop_coords": (left, top, left + width, top + height), "pad_params": None}


def _a_jitter(_: Any, own: Drawn) -> dict[str, Any]:
    values = {name: float(own.get(name, 1.0)) for name in ("brightness", "contrast", "saturation")}
    return {**values, "hue": float(own.get("hue", 0.0)), "order": list(own["order"])}


def _a_brightness(_: Any, own: Drawn) -> dict[str, Any]:
    return {"alpha": float(own["scale"]), "beta": 255.0 * float(np.ravel(own["shift"])[0])}


_ALBUMENTATIONS: dict[str, Callable[[Any, Drawn], dict[str, Any]]] = {
    "ColorJitter": _a_jitter,
    "RandomBrightnessContrast": _a_brightness,
    "RandomCrop": _a_crop,
    "RandomGamma": lambda _, own: {"gamma": float(own["amount"])},
    "RandomResizedCrop": _a_crop,
}
