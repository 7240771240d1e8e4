"""Networks of torchvision: built as it builds them, and what they see and drop by themselves."""

from __future__ import annotations

import inspect
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..images.preprocess import Preprocess
from .detection import Detection

__all__ = ["FILES", "Thresholds", "build", "detects", "preprocess_of"]

# Suffixes of what is a network's file, and no name.
FILES = (".pt", ".pth", ".ts", ".torchscript", ".pt2")

_TEXT = 500  # characters of another library's error, which may name hundreds of weights

# Where the weights are torchvision's own, it takes 1e-5 back out of their batch normalisation:
# they are older than it. See overwrite_eps() in torchvision/models/detection/_utils.py.
_WITHOUT_EPS = (
    "fasterrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
)
_OF_NO_IMAGES = ("video", "optical_flow")


def build(name: str, weights: str | None, seed: int) -> nn.Module:
    """Build a network by its name, with the weights in a folder or random ones.

    A state dict may be torchvision's own or that of a network made from it: what it needs besides
    its weights is set as torchvision sets it where it loads them itself.

    Raises
    ------
    ValueError
        There is no such model, it is none of images, or the file is no state dict of it.
    FileNotFoundError
        There is no such file.
    """
    from torchvision.models import get_model, list_models

    if name not in list_models():
        raise ValueError(
            f"visops.infer: {name!r} is neither a model of torchvision nor a "
            f"{', '.join(FILES)} file"
        )
    if (kind := _kind(name)) in _OF_NO_IMAGES:
        raise ValueError(f"visops.infer: {name!r} is a model of {kind}, must be one of images")
    path = None if weights is None else os.path.join(weights, f"{name}.pth")
    if path is not None and not os.path.isfile(path):
        raise FileNotFoundError(f"visops.infer: there are no weights of {name}: no file {path}")
    state = {} if path is None else _state_dict(path)
    options: dict[str, Any] = {"weights": None}
    if "weights_backbone" in _parameters(name):
        options["weights_backbone"] = None
    if path is not None:
        options |= _options_of(name, state)
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed(): that one also seeds every GPU's generator, the caller's.
        torch.default_generator.manual_seed(seed)
        network: nn.Module = get_model(name, **options)
    if path is not None:
        if kind == "detection" and not any(key.endswith(".num_batches_tracked") for key in state):
            _freeze(network.get_submodule("backbone"), 0.0 if name in _WITHOUT_EPS else None)
        try:
            network.load_state_dict(state)
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
            raise ValueError(
                f"visops.infer: {path} doesn't fit {name}: {str(error)[:_TEXT]}"
            ) from error
    return network


def detects(name: str) -> bool:
    """Whether a model is one of torchvision's detectors."""
    return _kind(name) == "detection"


def preprocess_of(name: str, network: nn.Module) -> Preprocess:
    """Return the input that a network was trained for, as far as :class:`Preprocess` has it."""
    if detects(name):
        # It resizes by itself: to an input of that size it does nothing more.
        own: Any = network.transform
        width, height = own.fixed_size or (own.min_size[-1], own.min_size[-1])
        return Preprocess((height, width), "letterbox", mean=None, std=None)
    if _kind(name) == "segmentation":
        return Preprocess((520, 520))
    from torchvision.models import get_model_weights

    only: Any = getattr(network, "image_size", None)  # transformers' positions are of one size
    trained: Any = get_model_weights(name)
    for weights in (trained.DEFAULT, *trained):
        own = weights.transforms()
        (size,), (resized,) = own.crop_size, own.resize_size
        if only in (None, size):
            return Preprocess(
                (size, size), "crop", tuple(own.mean), tuple(own.std), crop=size / resized
            )
    return Preprocess((only, only), "crop")


@dataclass(frozen=True)
class Thresholds:
    """What a detector of torchvision leaves of its boxes before anyone sees them.

    Attributes
    ----------
    score, iou : float
        Boxes of at most that score are dropped, and those of a class that overlap by more.
    most : int
        Boxes of an image.
    """

    score: float
    iou: float
    most: int

    @classmethod
    def of(cls, network: Any) -> Thresholds:
        """Return those that a network has."""
        own = _filter(network)
        return cls(own.score_thresh, own.nms_thresh, own.detections_per_img)

    @classmethod
    def under(cls, detection: Detection, network: Any) -> Thresholds:
        """Return those with which `detection` decides what is found.

        Masks and keypoints are made of every box that is left: so before them suppression is
        already that of `detection`, which then changes nothing more. Soft suppression can't be had
        from torchvision, and has to see all boxes.
        """
        heads = getattr(network, "roi_heads", None)
        costly = heads is not None and (heads.has_mask() or heads.has_keypoint())
        if not costly or detection.method != "hard":
            return cls(detection.score_threshold, 1.0, sys.maxsize)
        iou = 1.0 if detection.iou_threshold is None else detection.iou_threshold
        return cls(detection.score_threshold, iou, detection.max_detections)

    def give(self, network: Any) -> None:
        """Set them."""
        own = _filter(network)
        own.score_thresh, own.nms_thresh, own.detections_per_img = self.score, self.iou, self.most


def _filter(network: Any) -> Any:
    """Return what of a detector filters boxes: R-CNNs' heads, others do it themselves."""
    return getattr(network, "roi_heads", network)


def _kind(name: str) -> str:
    """Return "detection" and so on: in torchvision.models.<kind>, for classification a file."""
    from torchvision.models import get_model_builder

    return get_model_builder(name).__module__.split(".")[2]


def _parameters(name: str) -> Sequence[str]:
    from torchvision.models import get_model_builder

    return list(inspect.signature(get_model_builder(name)).parameters)


def _state_dict(path: str) -> Mapping[str, Any]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # of pickle, zipfile or torch
        raise ValueError(f"visops.infer: {path} is no state dict: {str(error)[:_TEXT]}") from error
    if not isinstance(state, Mapping):
        raise ValueError(f"visops.infer: {path} has a {type(state).__name__}, must be a state dict")
    if not any(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"visops.infer: {path} has {', '.join(map(str, state))[:_TEXT]}, must be a state dict, "
            "that is what state_dict() of the network returns"
        )
    return state


def _options_of(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what torchvision builds a network with where it is for these weights."""

    def has(prefix: str) -> bool:
        return any(key.startswith(prefix) for key in state)

    if "aux_loss" in _parameters(name):
        return {"aux_loss": has("aux_classifier.")}
    if name.removeprefix("quantized_") in ("googlenet", "inception_v3"):
        # Theirs come from TensorFlow, whose inputs were in other units: without this the scores
        # are of other colours.
        heads = has("aux1.") or has("AuxLogits.")
        return {"transform_input": True, "aux_logits": heads, "init_weights": False}
    positions, patches = state.get("encoder.pos_embedding"), state.get("conv_proj.weight")
    if name.startswith("vit_") and isinstance(positions, Tensor) and isinstance(patches, Tensor):
        return {"image_size": math.isqrt(positions.shape[1] - 1) * patches.shape[-1]}
    return {}


def _freeze(backbone: nn.Module, eps: float | None) -> None:
    """Make batch normalisation the kind whose state has no count of batches."""
    from torchvision.ops import FrozenBatchNorm2d

    for parent in list(backbone.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                frozen = FrozenBatchNorm2d(child.num_features, child.eps if eps is None else eps)
                setattr(parent, name, frozen)
