"""The options of a run, and those its results depend on."""

import os
from dataclasses import dataclass, field
from typing import Any

import torch

from .images.decode import MAX_BATCH_PIXELS, MAX_BYTES, MAX_PIXELS
from .images.preprocess import Preprocess, as_preprocess
from .store.merge import FORMATS

# Options that results depend on, but that plans made by earlier versions lack: they had no limits,
# but what exceeded these ended the run; and all masks were run lengths.
LATER = {"max_bytes": MAX_BYTES, "max_batch_pixels": MAX_BATCH_PIXELS, "masks": "rle"}

_MASKS = ("rle", "png")
_PICTURES = (None, "jpeg", "png")
_AUTOCAST = (None, "bfloat16", "float16")


def usable_cores() -> int:
    """Return the cores that this process may run on; all of them where the system can't say."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class Options:
    """Options of a run.

    Parameters
    ----------
    batch_size : int
        Images that networks see at once.
    workers : int
        Processes that decode; 0 decodes in this process. By default one per core, at most 8.
    device : str
        "cpu", "cuda", or a particular GPU such as "cuda:1".
    preprocess : Preprocess
        Preprocessing for models that have none of their own.
    seed : int
        Seed of the random weights of models loaded by name.
    format : {"jsonl", "parquet"}
        Format of the results.
    annotate : {None, "jpeg", "png"}
        Also write each image with its results drawn on it, in this format.
    masks : {"rle", "png"}
        Keep the masks of a result as run lengths in its record; or as a label map in a PNG file,
        whose path the record has. Pixels of the k-th mask, counted from 1, are k: those of the mask
        with the best score where several overlap, and 0 where there is none. Maps have 8 bits, or
        16 if there are more than 255 masks. Only masks in run lengths become a map, which are those
        of :class:`Detection` and :class:`Segmentation`; masks of single regions don't.
    autocast : {None, "bfloat16", "float16"}
        Run networks under ``torch.autocast`` with this type.
    channels_last : bool
        Use this memory format for inputs and weights.
    reduced : bool or None
        Decode large JPEGs at a fraction of their size (see :class:`Decoder`). None does so unless
        some model or annotation needs whole images.
    exif : bool
        Turn images upright by their EXIF orientation.
    max_pixels, max_bytes, max_batch_pixels : int
        Larger images and files fail, and images that make a batch too large for the memory (see
        :class:`Decoder`).
    writer_threads : int
        Threads that encode and write.
    room : int
        Batches that may wait between two stages.
    prefetch : int
        Batches that each worker decodes ahead.
    """

    batch_size: int = 64
    workers: int = field(default_factory=lambda: min(8, usable_cores()))
    device: str = "cpu"
    preprocess: Preprocess = field(default_factory=Preprocess)
    seed: int = 0
    format: str = "jsonl"
    annotate: str | None = None
    masks: str = "rle"
    autocast: str | None = None
    channels_last: bool = False
    reduced: bool | None = None
    exif: bool = True
    max_pixels: int = MAX_PIXELS
    max_bytes: int = MAX_BYTES
    max_batch_pixels: int = MAX_BATCH_PIXELS
    writer_threads: int = 4
    room: int = 2
    prefetch: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "preprocess", as_preprocess(self.preprocess))
        for name, least in (
            ("batch_size", 1),
            ("workers", 0),
            ("max_pixels", 1),
            ("max_bytes", 1),
            ("max_batch_pixels", 1),
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
            ("masks", _MASKS),
            ("autocast", _AUTOCAST),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"visops.infer: {name} is {value!r}, must be one of {allowed}")
        try:
            kind = torch.device(self.device).type
        except (RuntimeError, TypeError):  # torch lists all devices that it knows
            kind = ""
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"visops.infer: device is {self.device!r}, must be 'cpu' or 'cuda'")

    @property
    def memory_format(self) -> torch.memory_format:
        """Memory format of networks' inputs and weights."""
        return torch.channels_last if self.channels_last else torch.contiguous_format

    @property
    def picture_suffix(self) -> str:
        """Suffix of annotated images, and of images with regions pasted back."""
        return ".png" if self.annotate == "png" else ".jpg"

    def results_depend_on(self) -> dict[str, Any]:
        """Return the options that results depend on."""
        return {
            "batch_size": self.batch_size,
            "device": torch.device(self.device).type,
            "preprocess": repr(self.preprocess),
            "seed": self.seed,
            "annotate": self.annotate,
            "masks": self.masks,
            "autocast": self.autocast,
            "channels_last": self.channels_last,
            "reduced": self.reduced,
            "exif": self.exif,
            "max_pixels": self.max_pixels,
            "max_bytes": self.max_bytes,
            "max_batch_pixels": self.max_batch_pixels,
        }
