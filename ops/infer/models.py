"""Networks: what is called, on which input, and what is made of its output."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
        Returns a tensor or a dict of tensors whose first axis is the batch's, or a list with a dict
        of tensors for each image (torchvision's detectors).
    preprocess : Preprocess, optional
        Its own input; by default that of the run.
    postprocess : callable, optional
        See :class:`PostProcess`; by default :class:`Auto`, which goes by the output's form.
    as_list : bool
        Call it with a list of ``[3, h, w]``, as torchvision's detectors want.
    source : str
        What the network is, for the check on resumption: by default `name`, and the module's class.
    """

    name: str
    call: Callable[..., Any]
    preprocess: Preprocess | None = None
    postprocess: PostProcess = field(default_factory=Auto)
    as_list: bool = False
    source: str = ""
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
            if not isinstance(self.call, torch.fx.GraphModule):  # exported ones refuse eval()
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
        digest.update(f"{name} {getattr(value, 'dtype', '')} {list(value.shape)}".encode())
        data = value.detach().cpu().contiguous().flatten()
        digest.update(data.view(torch.uint8).numpy())
    return digest.hexdigest()


def load_models(
    names: Sequence[str], weights: str | None = None, seed: int = 0, size: tuple[int, int] | None = None
) -> list[Model]:
    """Load each of several models: see :func:`load_model`."""
    return [load_model(name, weights, seed, size) for name in names]


def load_model(
    name: str, weights: str | None = None, seed: int = 0, size: tuple[int, int] | None = None
) -> Model:
    """Load a model by its name in torchvision, or from a TorchScript or torch.export file.

    Parameters
    ----------
    name : str
        Such as ``resnet18``, or a path that ends in ``.pt``, ``.pth``, ``.ts``, ``.torchscript``
        (TorchScript) or ``.pt2`` (torch.export).
    weights : str, optional
        A folder of state dicts: ``<name>.pth`` is loaded where it is there. Nothing is downloaded.
    seed : int
        Of the random weights of models that have no such file.
    size : (int, int), optional
        Height and width of the input.

    Raises
    ------
    ValueError
        There is no such model.
    """
    if name.endswith(_FILES):
        return _from_file(name)
    from torchvision.models import get_model, list_models

    if name not in list_models():
        raise ValueError(
            f"visops.infer: {name!r} is neither a model of torchvision nor a "
            f"{', '.join(_FILES)} file"
        )
    kwargs: dict[str, Any] = {"weights": None}
    if "weights_backbone" in _parameters(name):
        kwargs["weights_backbone"] = None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = get_model(name, **kwargs)
    path = os.path.join(weights, f"{name}.pth") if weights is not None else None
    if path is not None and os.path.isfile(path):
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    kind = type(network).__module__.split(".")[2]  # torchvision.models.<kind>...
    detects = kind == "detection"
    preprocess = None
    if detects:  # they normalise by themselves
        preprocess = Preprocess(size or (320, 320), "letterbox", mean=None, std=None)
    elif size is not None:
        preprocess = Preprocess(size)
    return Model(name, network, preprocess, as_list=detects, source=f"torchvision {name}")


def _parameters(name: str) -> Sequence[str]:
    import inspect

    from torchvision.models import get_model_builder

    return list(inspect.signature(get_model_builder(name)).parameters)


def _from_file(path: str) -> Model:
    name = os.path.splitext(os.path.basename(path))[0]
    if path.endswith(".pt2"):
        return Model(name, torch.export.load(path).module(), source=os.path.basename(path))
    return Model(name, torch.jit.load(path, map_location="cpu"), source=os.path.basename(path))
