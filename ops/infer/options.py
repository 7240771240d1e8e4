"""The options of a run, and which of them its results depend on."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch

from .images.preprocess import Preprocess
from .store.merge import FORMATS

__all__ = ["Options"]

_PICTURES = (None, "jpeg", "png")
_AUTOCAST = (None, "bfloat16", "float16")


@dataclass(frozen=True)
class Options:
    """How a run goes.

    Parameters
    ----------
    batch_size : int
        Images that networks see together.
    workers : int
        Processes that decode; 0 decodes in this one. By default one a core, 8 at most.
    device : str
        "cpu" or "cuda", or one of several such as "cuda:1".
    preprocess : Preprocess
        The input of models that have none of their own.
    seed : int
        Of the random weights of models loaded by name.
    format : {"jsonl", "parquet"}
        Of the results.
    annotate : {None, "jpeg", "png"}
        Write each image with what was found in it, as such a file.
    autocast : {None, "bfloat16", "float16"}
        Run networks under ``torch.autocast`` to this type.
    channels_last : bool
        Give networks their input, and keep their weights, in this memory format.
    reduced : bool or None
        Decode large JPEGs at a fraction of their size (see :class:`Decoder`). None: unless some
        model or annotation needs whole images.
    exif : bool
        Turn images upright.
    max_pixels : int
        Larger images fail.
    writer_threads : int
        Threads that encode and write.
    room : int
        Batches that fit between two stages.
    prefetch : int
        Batches that each worker decodes ahead.
    """

    batch_size: int = 64
    workers: int = field(default_factory=lambda: min(8, len(os.sched_getaffinity(0))))
    device: str = "cpu"
    preprocess: Preprocess = field(default_factory=Preprocess)
    seed: int = 0
    format: str = "jsonl"
    annotate: str | None = None
    autocast: str | None = None
    channels_last: bool = False
    reduced: bool | None = None
    exif: bool = True
    max_pixels: int = 1 << 28
    writer_threads: int = 4
    room: int = 2
    prefetch: int = 2

    def __post_init__(self) -> None:
        for name, least in (
            ("batch_size", 1),
            ("workers", 0),
            ("max_pixels", 1),
            ("writer_threads", 1),
            ("room", 1),
            ("prefetch", 1),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or value < least:
                raise ValueError(f"visops.infer: {name} is {value!r}, must be at least {least}")
        for name, allowed in (
            ("format", FORMATS),
            ("annotate", _PICTURES),
            ("autocast", _AUTOCAST),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"visops.infer: {name} is {value!r}, must be one of {allowed}")
        device = torch.device(self.device)
        if device.type not in ("cpu", "cuda"):
            raise ValueError(f"visops.infer: device is {self.device!r}, must be 'cpu' or 'cuda'")

    @property
    def memory_format(self) -> torch.memory_format:
        """Of networks' inputs and weights."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @property
    def picture_suffix(self) -> str:
        """Of annotated images, and of those with regions pasted back."""
        return ".png" if self.annotate == "png" else ".jpg"

    def results_depend_on(self) -> dict[str, Any]:
        """Return the options that another value of would change results."""
        return {
            "batch_size": self.batch_size,
            "device": torch.device(self.device).type,
            "preprocess": repr(self.preprocess),
            "seed": self.seed,
            "annotate": self.annotate,
            "autocast": self.autocast,
            "channels_last": self.channels_last,
            "reduced": self.reduced,
            "exif": self.exif,
            "max_pixels": self.max_pixels,
        }
