"""Networks of torchvision: how to build them, their inputs, and detectors' own thresholds."""

import inspect
import math
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn

from ..images.preprocess import Preprocess, as_preprocess
from .detection import Detection

# A name with one of these suffixes is a file.
FILES = (".pt", ".pth", ".ts", ".torchscript", ".pt2")

RANDOM = "random"  # in the place of a folder of weights
_TEXT = 500  # characters of a library's error, which may list hundreds of weights

# With its own weights for these models, torchvision sets the eps of batch normalisation to 0: the
# weights are older than that eps. See overwrite_eps() in torchvision/models/detection/_utils.py.
_WITHOUT_EPS = (
    "fasterrcnn_resnet50_fpn",
    "keypointrcnn_resnet50_fpn",
    "maskrcnn_resnet50_fpn",
    "retinanet_resnet50_fpn",
)
_OF_NO_IMAGES = ("video", "optical_flow")


def register_operators() -> None:
    """Make ``torch.ops.torchvision`` known: networks in files may call its nms or roi_align."""
    with suppress(ImportError):  # a network may do without it
        import_module("torchvision.ops")


def build(name: str, weights: str | None, seed: int) -> nn.Module:
    """Build a network by name, with weights from a folder, or random ones if it is "random".

    The state dict may be torchvision's own, or that of a network trained from it: other settings
    that it requires are set as torchvision sets them when it loads its own weights.

    Raises
    ------
    ValueError
        There is no such model, it is not for images, it is given no weights, or the file is not a
        state dict of it.
    FileNotFoundError
        There is no such file.
    """
    from torchvision.models import get_model, list_models

    if name not in list_models():
        raise ValueError(
            f"visops.infer: {name!r} is neither a torchvision model nor a {', '.join(FILES)} file "
            "nor file.py:function"
        )
    if (kind := _kind(name)) in _OF_NO_IMAGES:
        raise ValueError(f"visops.infer: {name!r} is a model for {kind}, must be one for images")
    if weights is None:
        raise ValueError(
            f"visops.infer: weights is None for {name}, must be a folder with {name}.pth, or "
            f"{RANDOM!r} for random ones (nothing is downloaded)"
        )
    path = None if weights == RANDOM else os.path.join(weights, f"{name}.pth")
    if path is not None and not os.path.isfile(path):
        raise FileNotFoundError(f"visops.infer: there are no weights for {name}: no file {path}")
    state = {} if path is None else _state_dict(path)
    options: dict[str, Any] = {"weights": None}
    if "weights_backbone" in _parameters(name):
        options["weights_backbone"] = None
    if path is not None:
        options |= _options_of(name, state)
    with torch.random.fork_rng(devices=[]):
        # Not torch.manual_seed(), which would also reseed the caller's generators on every GPU.
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


def classes_of(name: str) -> tuple[str, ...] | None:
    """Return the names of the classes that torchvision's own weights were trained for, if any."""
    from torchvision.models import get_model_weights

    trained: Any = get_model_weights(name)
    names = trained.DEFAULT.meta.get("categories") if len(trained) else None
    return None if names is None else tuple(names)


def detects(name: str) -> bool:
    """Whether a model is one of torchvision's detectors."""
    return _kind(name) == "detection"


def preprocess_of(name: str, network: nn.Module) -> Preprocess:
    """Return the input that a network was trained for, as closely as :class:`Preprocess` can."""
    if detects(name):
        # The detector resizes by itself, but leaves an input of this size as it is.
        own: Any = network.transform
        width, height = own.fixed_size or (own.min_size[-1], own.min_size[-1])
        return Preprocess((height, width), "letterbox", mean=None, std=None)
    if _kind(name) == "segmentation":
        return Preprocess((520, 520))
    from torchvision.models import get_model_weights

    only: Any = getattr(network, "image_size", None)  # transformers accept a single size
    trained: Any = get_model_weights(name)
    for weights in (trained.DEFAULT, *trained):
        preprocess = as_preprocess(weights.transforms())
        if only in (None, preprocess.size[0]):
            return preprocess
    return Preprocess((only, only), "crop")


@dataclass(frozen=True)
class Thresholds:
    """The thresholds by which a torchvision detector drops boxes itself.

    Attributes
    ----------
    score, iou : float
        It drops boxes of at most this score, and boxes of one class that overlap by more.
    most : int
        Maximum number of boxes per image.
    """

    score: float
    iou: float
    most: int

    @classmethod
    def of(cls, network: Any) -> "Thresholds":
        """Return the current thresholds of a network."""
        own = _filter(network)
        return cls(own.score_thresh, own.nms_thresh, own.detections_per_img)

    @classmethod
    def under(cls, detection: Detection, network: Any) -> "Thresholds":
        """Return thresholds that leave the decisions to `detection`.

        Masks and keypoints are computed for every box left. For such networks the thresholds are
        those of `detection`, which then has nothing left to suppress. Soft suppression, which
        torchvision lacks, must see all boxes.
        """
        heads = getattr(network, "roi_heads", None)
        costly = heads is not None and (heads.has_mask() or heads.has_keypoint())
        if not costly or detection.method != "hard":
            return cls(detection.score_threshold, 1.0, sys.maxsize)
        iou = 1.0 if detection.iou_threshold is None else detection.iou_threshold
        return cls(detection.score_threshold, iou, detection.max_detections)

    def give(self, network: Any) -> None:
        """Set these thresholds."""
        own = _filter(network)
        own.score_thresh, own.nms_thresh, own.detections_per_img = self.score, self.iou, self.most


def _filter(network: Any) -> Any:
    """Return the module that filters boxes: the heads of an R-CNN, else the detector itself."""
    return getattr(network, "roi_heads", network)


def _kind(name: str) -> str:
    """Return "detection" and so on, from torchvision.models.<kind>; a file for classification."""
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
    except Exception as error:  # from pickle, zipfile or torch
        raise ValueError(
            f"visops.infer: {path} is not a state dict: {str(error)[:_TEXT]}"
        ) from error
    if not isinstance(state, Mapping):
        raise ValueError(
            f"visops.infer: {path} holds a {type(state).__name__}, must hold a state dict"
        )
    if not any(isinstance(value, Tensor) for value in state.values()):
        raise ValueError(
            f"visops.infer: {path} holds {', '.join(map(str, state))[:_TEXT]}, must hold a state "
            "dict, as returned by the network's state_dict()"
        )
    return state


def _options_of(name: str, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which torchvision builds a network for these weights."""

    def has(prefix: str) -> bool:
        return any(key.startswith(prefix) for key in state)

    if "aux_loss" in _parameters(name):
        return {"aux_loss": has("aux_classifier.")}
    if name.removeprefix("quantized_") in ("googlenet", "inception_v3"):
        # Their weights come from TensorFlow, with another normalisation of inputs: transform_input
        # converts.
        heads = has("aux1.") or has("AuxLogits.")
        return {"transform_input": True, "aux_logits": heads, "init_weights": False}
    positions, patches = state.get("encoder.pos_embedding"), state.get("conv_proj.weight")
    if name.startswith("vit_") and isinstance(positions, Tensor) and isinstance(patches, Tensor):
        return {"image_size": math.isqrt(positions.shape[1] - 1) * patches.shape[-1]}
    return {}


def _freeze(backbone: nn.Module, eps: float | None) -> None:
    """Replace batch normalisation by the frozen kind, whose state has no batch counts."""
    from torchvision.ops import FrozenBatchNorm2d

    for parent in list(backbone.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.BatchNorm2d):
                frozen = FrozenBatchNorm2d(child.num_features, child.eps if eps is None else eps)
                setattr(parent, name, frozen)
