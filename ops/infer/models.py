"""Networks: what is called, on which input, and what is made of its output."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from .postprocess import Auto, PostProcess
from .preprocess import Placement, Preprocess

__all__ = ["Model", "load_model", "load_models"]

_FILES = (".pt", ".pth", ".ts", ".torchscript", ".pt2")


@dataclass
class Model:
    """A callable on a batch ``[N, 3, h, w]``, with a name.

    Parameters
    ----------
    name : str
        The key of its outputs in records.
    call : callable
        A module is put on the device, and into evaluation mode, for good.
        Returns a tensor or a dict of tensors whose first axis is the batch's, or a list with a dict
        of tensors for each image (torchvision's detectors).
    preprocess : Preprocess, optional
        Its own input; by default that of the run.
    postprocess : callable, optional
        See :class:`PostProcess`; by default :class:`Auto`, which goes by the output's form.
    as_list : bool
        Call it with a list of ``[3, h, w]``, as torchvision's detectors want.
    source : str
        What the network is, for the check on resumption: by default the callable's own name.
    loaded : tuple or None
        What :func:`load_model` was called with, for processes that load it themselves.
    """

    name: str
    call: Callable[..., Any]
    preprocess: Preprocess | None = None
    postprocess: PostProcess = field(default_factory=Auto)
    as_list: bool = False
    source: str = ""
    loaded: tuple[Any, ...] | None = None
    whole_images = False  # whether forward() looks at them

    def __post_init__(self) -> None:
        if not self.name or "/" in self.name:
            raise ValueError(f"visops.infer: model name {self.name!r} must be non-empty, without /")
        if not callable(self.call):
            raise TypeError(
                f"visops.infer: model {self.name} is a {type(self.call).__name__}, must be callable"
            )
        if not self.source:
            kind = self.call if hasattr(self.call, "__qualname__") else type(self.call)
            self.source = f"{kind.__module__}.{kind.__qualname__}"

    def to(self, device: torch.device, memory_format: torch.memory_format) -> None:
        """Put a module on the device, in evaluation mode; other callables are left alone."""
        if isinstance(self.call, nn.Module):
            with suppress(NotImplementedError):  # exported ones are what they were exported as
                self.call.eval()
            self.call.to(device=device)
            if memory_format is torch.channels_last:
                self.call.to(memory_format=memory_format)

    def fingerprint(self) -> dict[str, Any]:
        """Return what its outputs depend on, weights included, as JSON has it."""
        return {
            "source": self.source,
            "weights": weights_digest(self.call),
            "preprocess": repr(self.preprocess),
            "postprocess": repr(self.postprocess),
        }

    def forward(
        self, inputs: Tensor, images: Sequence[Tensor], placements: Sequence[Placement]
    ) -> Any:
        """Run the network on a batch; `images` are the whole ones, uint8 ``[3, H, W]``."""
        return self.call(list(inputs) if self.as_list else inputs)


def weights_digest(call: object) -> str | None:
    """SHA-256 of a module's parameters and buffers; None for what is no module."""
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
    """Load each of several models: see :func:`load_model`."""
    return [load_model(name, weights, seed, preprocess) for name in names]


def load_model(
    name: str,
    weights: str | None = None,
    seed: int = 0,
    preprocess: Preprocess | None = None,
) -> Model:
    """Load a model by its name in torchvision, or from a TorchScript or torch.export file.

    Parameters
    ----------
    name : str
        Such as ``resnet18``, or a path that ends in ``.pt``, ``.pth``, ``.ts``, ``.torchscript``
        (TorchScript) or ``.pt2`` (torch.export).
    weights : str, optional
        A folder with a state dict ``<name>.pth`` of each model of torchvision. Without it weights
        are random. Nothing is downloaded.
    seed : int
        Of random weights.
    preprocess : Preprocess, optional
        By default torchvision's: the middle of the image at 224 x 224 pixels for classification,
        all of it at 520 x 520 for segmentation, and within 320 x 320 for detection. Detectors
        normalise by themselves: `mean` and `std` are None for them.

    Raises
    ------
    ValueError
        There is no such model.
    FileNotFoundError
        There is no such file.
    """
    loaded = (name, weights, seed, preprocess)
    if name.endswith(_FILES):
        return _from_file(name, preprocess, loaded)
    from torchvision.models import get_model, list_models

    if name not in list_models():
        raise ValueError(
            f"visops.infer: {name!r} is neither a model of torchvision nor a "
            f"{', '.join(_FILES)} file"
        )
    untrained: dict[str, Any] = {"weights": None}
    if "weights_backbone" in _parameters(name):
        untrained["weights_backbone"] = None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = get_model(name, **untrained)
    if weights is not None:
        path = os.path.join(weights, f"{name}.pth")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"visops.infer: there are no weights of {name}: no file {path}")
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    kind = type(network).__module__.split(".")[2]  # torchvision.models.<kind>...
    detects = kind == "detection"
    if preprocess is None:
        if detects:
            preprocess = Preprocess((320, 320), "letterbox")
        else:
            preprocess = (
                Preprocess((520, 520)) if kind == "segmentation" else Preprocess(fit="crop")
            )
    if detects:
        preprocess = replace(preprocess, mean=None, std=None)
    source = f"torchvision {name}"
    return Model(name, network, preprocess, as_list=detects, source=source, loaded=loaded)


def _parameters(name: str) -> Sequence[str]:
    from torchvision.models import get_model_builder

    return list(inspect.signature(get_model_builder(name)).parameters)


def _from_file(path: str, preprocess: Preprocess | None, loaded: tuple[Any, ...]) -> Model:
    if not os.path.isfile(path):
        raise FileNotFoundError(f"visops.infer: there is no model file {path}")
    source = os.path.basename(path)
    if path.endswith(".pt2"):
        network: Any = torch.export.load(path).module()
    else:
        network = torch.jit.load(path, map_location="cpu")
    return Model(os.path.splitext(source)[0], network, preprocess, source=source, loaded=loaded)
