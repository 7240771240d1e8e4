"""A model: what to call, on which input, and how to process its output."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from ..frames import Placement
from ..images.preprocess import Preprocess, as_preprocess
from . import torchvision
from .describe import describe, with_names
from .detection import Detection
from .exported import call_in_fixed_batches, is_python, load_exported, load_python
from .postprocess import Auto, PostProcess


@dataclass
class Model:
    """A callable on a batch ``[N, 3, h, w]``, with a name.

    Parameters
    ----------
    name : str
        The key of its outputs in records.
    call : callable
        A module stays on the run's device and in evaluation mode afterwards.
        Returns a tensor or a dict of tensors, with the batch as first axis, or a list with a dict
        of tensors per image (torchvision's detectors).
    preprocess : Preprocess, optional
        By default that of the run.
    postprocess : callable, optional
        See :class:`PostProcess`; by default :class:`Auto`, which goes by the form of the output.
    as_list : bool
        Call it with a list of tensors ``[3, h, w]``, as torchvision's detectors expect.
    source : str
        Identifies the network when a run resumes: by default the callable's qualified name.
    loaded : tuple or None
        The arguments of :func:`load_model`, for processes that load the model themselves.
    batch_size : int or None
        The only batch size that it takes: smaller batches are padded, larger ones split.
    classes : sequence of str, optional
        Names of the classes, label 0 first. Results with integer ``labels`` then have ``names``,
        None for a label without one.
    """

    name: str
    call: Callable[..., Any]
    preprocess: Preprocess | None = None
    postprocess: PostProcess = field(default_factory=Auto)
    as_list: bool = False
    source: str = ""
    loaded: tuple[Any, ...] | None = None
    batch_size: int | None = None
    classes: Sequence[str] | None = None
    whole_images = False  # whether forward() uses `images`

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise ValueError(f"visops.infer: model name {self.name!r} must be non-empty, without /")
        if not callable(self.call):
            raise TypeError(
                f"visops.infer: model {self.name} is a {type(self.call).__name__}, must be callable"
            )
        if self.preprocess is not None:
            self.preprocess = as_preprocess(self.preprocess, f" of model {self.name}")
        if not self.source:
            kind = self.call if hasattr(self.call, "__qualname__") else type(self.call)
            self.source = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(self.classes, str):
            raise TypeError(
                f"visops.infer: classes of model {self.name} is {self.classes!r}, must be a "
                "sequence of names"
            )

    def to(self, device: torch.device, memory_format: torch.memory_format) -> None:
        """Put a module on the device, in evaluation mode; leave other callables alone."""
        if isinstance(self.call, nn.Module):
            with suppress(NotImplementedError):  # exported modules keep the mode of their export
                self.call.eval()
            self.call.to(device=device)
            if memory_format is torch.channels_last:
                self.call.to(memory_format=memory_format)

    def fingerprint(self) -> dict[str, Any]:
        """Return all that its outputs depend on, weights included, as JSON values."""
        said = {
            "source": self.source,
            "weights": weights_digest(self.call),
            "preprocess": repr(self.preprocess),
            "postprocess": describe(self.postprocess, weights_digest),
        }
        if self.classes is not None:
            names = json.dumps(list(self.classes)).encode()
            said["classes"] = hashlib.sha256(names).hexdigest()[:16]
        return said

    def named(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return an image's result with the names of its classes."""
        return with_names(result, self.classes)  # type: ignore[no-any-return]

    def forward(
        self, inputs: Tensor, images: Sequence[Tensor], placements: Sequence[Placement]
    ) -> Any:
        """Run the network on a batch; `images` are the whole images, uint8 ``[3, H, W]``."""
        if self.batch_size is not None:
            return call_in_fixed_batches(self.call, self.batch_size, inputs, self.as_list)
        output = self.call(list(inputs) if self.as_list else inputs)
        # Scripted, torchvision's detectors return their losses too.
        losses = self.as_list and isinstance(output, tuple) and len(output) == 2
        return output[1] if losses and isinstance(output[1], list) else output


@dataclass
class _Detector(Model):
    """A torchvision detector, which drops boxes by thresholds of its own."""

    own: torchvision.Thresholds | None = None

    def to(self, device: torch.device, memory_format: torch.memory_format) -> None:
        """Also set its thresholds to those of the post-processing, which runs too late."""
        super().to(device, memory_format)
        if self.own is None:
            self.own = torchvision.Thresholds.of(self.call)
        detection = self.postprocess
        if isinstance(detection, Auto):
            detection = detection.detection
        thresholds = self.own  # for a post-processing that is not ours
        if isinstance(detection, Detection):
            thresholds = torchvision.Thresholds.under(detection, self.call)
        thresholds.give(self.call)


def weights_digest(call: object) -> str | None:
    """Return the SHA-256 of a module's parameters and buffers; None if it is not a module."""
    if not isinstance(call, nn.Module):
        return None
    digest = hashlib.sha256()
    for name, value in sorted(call.state_dict().items()):
        shape = list(getattr(value, "shape", ()))
        digest.update(f"{name} {getattr(value, 'dtype', '')} {shape}".encode())
        if isinstance(value, Tensor) and value.layout is torch.strided and not value.is_quantized:
            data = value.detach().cpu().contiguous().flatten()
            digest.update(data.view(torch.uint8).numpy().data)
        else:
            digest.update(repr(value).encode())
    return digest.hexdigest()


def load_models(
    names: Sequence[str],
    weights: str | None = None,
    seed: int = 0,
    preprocess: Preprocess | None = None,
) -> list[Model]:
    """Load several models: see :func:`load_model`. Model files contain their own weights.

    Raises
    ------
    ValueError
        There are `weights`, but no model to load them into.
    """
    if weights is not None and all(map(_is_file, names)):
        raise ValueError(_useless(weights, ", ".join(names)))
    return [
        load_model(name, None if _is_file(name) else weights, seed, preprocess) for name in names
    ]


def load_model(
    name: str,
    weights: str | None = None,
    seed: int = 0,
    preprocess: Preprocess | None = None,
) -> Model:
    """Load a model by its name in torchvision, or from a TorchScript or torch.export file.

    A torchvision detector drops boxes by the thresholds of its :class:`Detection`, not by
    torchvision's defaults. It still considers at most its ``topk_candidates`` boxes: 400 per class
    in SSD, 300 in SSDlite, 1,000 per scale in RetinaNet and FCOS; R-CNNs consider 1,000 regions,
    the one for 320 pixels 150.

    Parameters
    ----------
    name : str
        Such as ``resnet18``, with torchvision's names of classes; or a path that ends in ``.pt``,
        ``.pth``, ``.ts``, ``.torchscript`` (TorchScript) or ``.pt2`` (torch.export); or
        ``file.py:function``, a function without arguments in a Python file, that returns a network,
        a network and its post-processing, or a :class:`Model`. A network exported for one batch
        size gets batches of that size. Detectors in files may suppress boxes themselves.
    weights : str, optional
        For torchvision models: a folder with a state dict ``<name>.pth`` for each, torchvision's
        own weights or trained from them; or "random". Nothing is downloaded.
    seed : int
        Seed of random weights.
    preprocess : Preprocess, optional
        By default, for classification, the size, crop, mean and standard deviation of torchvision's
        default weights: mostly the middle 224 x 224 pixels after resizing the shorter side to 232
        or 256, always with the bilinear filter. For segmentation the whole image at 520 x 520;
        torchvision itself keeps the aspect ratio. For detection the size the detector would resize
        images to, mostly 800 x 800, else 300 or 320, with bars; it resizes inputs of other sizes
        again. Detectors normalise by themselves: `mean` and `std` are None for them.

    Raises
    ------
    ValueError
        There is no such model, the file is not a model, its weights don't fit, or a torchvision
        model is given none.
    FileNotFoundError
        There is no such file.
    """
    loaded = (name, weights, seed, preprocess)
    if _is_file(name):
        if weights is not None:
            raise ValueError(_useless(weights, name))
        if is_python(name):
            return _from_python(name, seed, preprocess, loaded)
        return _from_file(name, preprocess, loaded)
    network = torchvision.build(name, weights, seed)
    source = f"torchvision {name}"
    detects = torchvision.detects(name)
    if preprocess is None:
        preprocess = torchvision.preprocess_of(name, network)
    elif detects:
        preprocess = replace(preprocess, mean=None, std=None)
    kind = _Detector if detects else Model
    return kind(
        name,
        network,
        preprocess,
        as_list=detects,
        source=source,
        loaded=loaded,
        classes=torchvision.classes_of(name),
    )


def _is_file(name: str) -> bool:
    return name.endswith(torchvision.FILES) or is_python(name)


def _from_python(
    name: str, seed: int, preprocess: Preprocess | None, loaded: tuple[Any, ...]
) -> Model:
    function, found = load_python(name, seed)
    if isinstance(found, Model):
        found.loaded = loaded
        return found
    call, *rest = found if isinstance(found, tuple) and len(found) == 2 else (found,)
    if not callable(call):
        raise ValueError(
            f"visops.infer: {name} returns a {type(call).__name__}, must return a network, a "
            "network and its post-processing, or a Model"
        )
    model = Model(function, call, preprocess, source=os.path.basename(name), loaded=loaded)
    if rest:
        model.postprocess = rest[0]
    return model


def _useless(weights: str, names: str) -> str:
    return (
        f"visops.infer: weights is {weights!r}, must be None for {names}: weights are loaded into "
        "torchvision models, by name, and files have their own"
    )


def _from_file(path: str, preprocess: Preprocess | None, loaded: tuple[Any, ...]) -> Model:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"visops.infer: there is no model file {path}")
    source = os.path.basename(path)
    name, suffix = os.path.splitext(source)
    batch_size, as_list = None, False
    torchvision.register_operators()
    try:
        if suffix == ".pt2":
            network, batch_size, as_list = load_exported(path)
        else:
            network = torch.jit.load(path, map_location="cpu")
            as_list = _takes_list(network)
    except Exception as error:  # from pickle, zipfile or torch
        wanted = "torch.export file" if suffix == ".pt2" else "TorchScript file"
        first = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"visops.infer: {path} is not a {wanted}: {type(error).__name__}: {first}. A state "
            "dict alone is not a network: for a torchvision model, save it as NAME.pth in the "
            "folder of weights"
        ) from error
    return Model(
        name,
        network,
        preprocess,
        as_list=as_list,
        source=source,
        loaded=loaded,
        batch_size=batch_size,
    )


def _takes_list(network: Any) -> bool:
    """Whether a TorchScript network takes a list of images, as torchvision's detectors do."""
    arguments = network.forward.schema.arguments[1:]  # after self
    return bool(arguments) and str(arguments[0].type) == "List[Tensor]"
