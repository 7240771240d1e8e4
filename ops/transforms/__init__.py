"""Augmentation that fuses itself: transforms with the interface of torchvision's v2.

A :class:`Compose` of these transforms reads and writes each pixel once, however many there are. It
works on the CPU and on CUDA, on one sample in a ``Dataset`` or on a batch, where every sample draws
its own parameters.
"""

# A house of rooms, each importing only those before it: `sample` splits a sample into images and
# targets, `targets` moves targets, `chain` forms passes and runs them, and `compose` is a chain.
# `mixing` combines the samples of a batch, `classes` has the transforms, `loading` runs chains in
# threads, and `recipes` has whole chains.

import types as _types
import typing as _typing

from . import presets as presets
from .base import Transform as Transform
from .chain.effects import Effects as Effects
from .chain.foreign import ImageOnly as ImageOnly
from .chain.plan import Canvas as Canvas
from .chain.plan import Plan as Plan
from .chain.source import Parameters as Parameters
from .classes import *
from .compose import Compose as Compose
from .loading.collate_yolo import collate_yolo as collate_yolo
from .loading.indexed_dataset import IndexedDataset as IndexedDataset
from .loading.indexed_dataset import IndexedSampler as IndexedSampler
from .loading.loader import Loader as Loader
from .loading.statistics import LoaderStats as LoaderStats
from .mixing.copy_paste import CopyPaste as CopyPaste
from .mixing.cut_mix import CutMix as CutMix
from .mixing.mix_up import MixUp as MixUp
from .mixing.mosaic import Mosaic as Mosaic
from .recipes import convert as torchvision_names
from .recipes.convert import convert as convert
from .recipes.preview import preview as preview
from .targets.move import visible as visible

# The full name, and torchvision's.
RandomAugment = RandAugment
TrivialAugmentWide = TrivialAugment

if not _typing.TYPE_CHECKING:  # type checkers take the names from the imports
    _found = [n for n, v in vars().items() if n[0] != "_" and not isinstance(v, _types.ModuleType)]
    __all__ = sorted(["presets", *_found])


def __getattr__(name: str) -> object:
    """Find the names of torchvision that this package doesn't have itself."""
    return torchvision_names.find(name)
