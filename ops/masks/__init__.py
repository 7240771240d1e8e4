"""Binary masks and label maps: bits, runs, overlaps, components and distances."""

import typing as _typing

from . import functions as _functions
from .components import ComponentStats as ComponentStats
from .functions import *
from .packed import PackedMasks as PackedMasks
from .runs import RLE as RLE

if not _typing.TYPE_CHECKING:
    __all__ = ["RLE", "ComponentStats", "PackedMasks", *_functions.__all__]
