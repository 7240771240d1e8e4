"""A second network on the regions that a detector finds: crop, run, paste back."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ...roi.crops import crop_rois, paste_rois
from ..frames import Placement
from ..images.preprocess import IMAGENET_MEAN, IMAGENET_STD, three_numbers
from .detection import Detection
from .model import Model
from .postprocess import Auto, PostProcess

_PASTES = (None, "replace", "feather")


class Regions(Model):
    """Detect, crop from the whole image, run a second network, and paste back.

    :func:`visops.crop_rois` crops the boxes found. The second network's results go into the record
    as ``regions``, one per box. With `paste`, its outputs are pictures instead:
    :func:`visops.paste_rois` pastes them back, and the record has the path of the written image as
    ``picture``.

    Parameters
    ----------
    name : str
        The key of its outputs in records.
    detector : Model
        Its `postprocess` is a :class:`Detection`, or an :class:`Auto`, whose detection is used.
    call : callable
        The second network, on patches ``[K, 3, h, w]``, float32.
    size : (int, int)
        Height and width of the patches.
    detection : Detection, optional
        Which boxes count as found; by default as the detector's `postprocess` says.
    postprocess : callable, optional
        For the second network's output, unless `paste`.
    mean, std : three numbers, None, or "auto"
        Subtracted from the second network's input and divided by, with white at 1. None leaves it
        out, as in :class:`Preprocess`. "auto" is ImageNet's, or None with `paste`.
    paste : {None, "replace", "feather"}
        Paste with this blend; the second network returns pictures ``[K, 3, h', w']`` with white at
        1.
    feather : float
        Width of the blend, in pixels of the image.
    batch_size : int
        Patches that the second network sees at once; the patches of a batch of images are split
        accordingly.
    classes : sequence of str, optional
        Names of the second network's classes; those of the boxes are the detector's.
    """

    whole_images = True

    def __init__(
        self,
        name: str,
        detector: Model,
        call: Callable[..., Any],
        size: tuple[int, int],
        *,
        detection: Detection | None = None,
        postprocess: PostProcess | None = None,
        mean: Sequence[float] | str | None = "auto",
        std: Sequence[float] | str | None = "auto",
        paste: Literal["replace", "feather", "alpha"] | None = None,
        feather: float = 8.0,
        batch_size: int = 64,
        classes: Sequence[str] | None = None,
    ) -> None:
        if paste not in _PASTES:
            raise ValueError(f"visops.infer: paste is {paste!r}, must be one of {_PASTES}")
        mean = _given("mean", mean, None if paste else IMAGENET_MEAN)
        std = _given("std", std, None if paste else IMAGENET_STD)
        self.second = Model(
            f"{name}'s second", call, postprocess=postprocess or Auto(), classes=classes
        )
        self.detection = _detection(detector, detection)
        # A detector that suppresses boxes itself takes its thresholds from its post-processing.
        self.detector = copy.copy(detector)
        self.detector.postprocess = self.detection
        self.size, self.paste, self.feather = size, paste, feather
        self.regions_batch_size = batch_size
        self.normalise: tuple[Tensor, Tensor] | None = None
        if mean is not None or std is not None:
            both = [mean or (0.0,) * 3, std or (1.0,) * 3]
            numbers = torch.tensor(both, dtype=torch.float32, device="cpu")[..., None, None]
            self.normalise = (numbers[0], numbers[1])
        super().__init__(
            name,
            detector.call,
            detector.preprocess,
            _as_found,
            source=f"regions of {detector.source}",
            classes=detector.classes,
        )

    def to(self, device: torch.device, memory_format: torch.memory_format) -> None:
        """Put both networks on the device."""
        self.detector.to(device, memory_format)
        self.second.to(device, memory_format)
        if self.normalise is not None:
            mean, std = self.normalise
            self.normalise = (mean.to(device), std.to(device))

    def fingerprint(self) -> dict[str, Any]:
        """Return all that outputs depend on."""
        options = {
            "detection": repr(self.detection),
            "size": list(self.size),
            "normalise": [value.flatten().tolist() for value in self.normalise or ()],
            "paste": self.paste,
            "feather": self.feather,
            "batch_size": self.regions_batch_size,
        }
        return {
            "source": self.source,
            "detector": self.detector.fingerprint(),
            "second": self.second.fingerprint(),
            "options": options,
        }

    def named(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return an image's result with the names of both networks' classes."""
        result = super().named(result)
        if "regions" in result:
            result = {**result, "regions": list(map(self.second.named, result["regions"]))}
        return result

    def forward(
        self, inputs: Tensor, images: Sequence[Tensor], placements: Sequence[Placement]
    ) -> Any:
        """Run both networks; return a dict per image."""
        output = self.detector.forward(inputs, images, placements)
        found = self.detection.detect(output, placements)
        boxes = [item["boxes"] for item in found]
        counts = [len(part) for part in boxes]
        patches: list[Tensor] = [
            crop_rois(image[None], _rows(part), self.size)
            for image, part in zip(images, boxes, strict=True)
        ]
        parts = torch.cat(patches).split(self.regions_batch_size)
        outputs = [self._second(part) for part in parts if len(part)]
        if self.paste is None:
            self._add_results(found, outputs, counts)
        else:
            self._add_pictures(found, outputs, images, boxes)
        return found

    def _second(self, patches: Tensor) -> Any:
        values = patches.float() / 255
        if self.normalise is not None:
            mean, std = self.normalise
            values = (values - mean) / std
        return self.second.call(values)

    def _add_results(
        self, found: list[dict[str, Any]], outputs: list[Any], counts: list[int]
    ) -> None:
        results: list[dict[str, Any]] = []
        height, width = self.size
        placement = Placement(
            1.0, 1.0, 0.0, 0.0, height, width, height, width
        )  # a patch is its input
        left = sum(counts)
        for output in outputs:
            rows = min(left, self.regions_batch_size)
            if rows:
                made = self.second.postprocess(output, [placement] * rows)
                self._check_count("postprocess", len(made), rows)
                results += made
            left -= rows
        rest = iter(results)
        for item, count in zip(found, counts, strict=True):
            item["regions"] = [next(rest) for _ in range(count)]

    def _add_pictures(
        self,
        found: list[dict[str, Any]],
        outputs: list[Any],
        images: Sequence[Tensor],
        boxes: list[Tensor],
    ) -> None:
        if not outputs:
            for item, image in zip(found, images, strict=True):
                item["picture"] = image
            return
        patches = torch.cat([_as_pixels(output) for output in outputs])
        self._check_count("network", len(patches), sum(map(len, boxes)))
        parts = patches.split([len(part) for part in boxes])
        for item, image, part, own in zip(found, images, parts, boxes, strict=True):
            pasted = paste_rois(
                image[None], part, _rows(own), blend=self.paste or "replace", feather=self.feather
            )
            item["picture"] = pasted[0]

    def _check_count(self, what: str, got: int, regions: int) -> None:
        if got != regions:
            raise ValueError(
                f"visops.infer: the second {what} of {self.name} returned {got} results for "
                f"{regions} regions"
            )


def _given(
    name: str, given: Sequence[float] | str | None, default: tuple[float, ...] | None
) -> tuple[float, ...] | None:
    """Return three numbers, or None, for an argument that may be "auto"."""
    if isinstance(given, str) and given == "auto":
        return default
    numbers = None if given is None else three_numbers(name, given, 'None or "auto"')
    if name == "std" and 0 in (numbers or ()):
        raise ValueError(f"visops.infer: std of regions is {numbers}, must have no 0")
    return numbers


def _detection(detector: Model, given: Detection | None) -> Detection:
    """Return which boxes count; the detector's own `postprocess` must not contradict `given`."""
    own = detector.postprocess
    if isinstance(own, Auto):
        own = own.detection
    if not isinstance(own, Detection):
        raise TypeError(
            f"visops.infer: postprocess of detector {detector.name} is {own!r}, must be a "
            "Detection for regions"
        )
    if given is None:
        return own
    if own not in (given, Detection()):  # the default contradicts nothing
        raise ValueError(
            f"visops.infer: detection of regions is {given}, must be omitted or equal that of "
            f"detector {detector.name}, {own}"
        )
    return given


def _rows(boxes: Tensor) -> Tensor:
    """Prepend the index of the only image, 0, to boxes ``[K, 4]``."""
    return torch.nn.functional.pad(boxes, (1, 0))


def _as_pixels(values: Tensor) -> Tensor:
    if values.dtype == torch.uint8:
        return values
    return (values.float() * 255).round().clamp(0, 255).to(torch.uint8)


def _as_found(output: Any, placements: Sequence[Placement]) -> list[dict[str, Any]]:
    """Copy the results of Regions.forward() to the CPU; the picture stays a tensor."""
    return [{key: _on_cpu(key, value) for key, value in item.items()} for item in output]


def _on_cpu(key: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    value = value.cpu()
    if key != "picture":
        return value.numpy()
    # A view would keep the pixels of the whole batch, also when sent to another process.
    return value.clone() if value.untyped_storage().nbytes() > value.nbytes else value
