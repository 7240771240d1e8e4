"""The transforms. What a module's `__all__` names is public."""

import types as _types
import typing as _typing

from .blur import *
from .boxes import *
from .choosing import *
from .color import *
from .crop import *
from .curves import *
from .decode_jpeg import *
from .distortion import *
from .dropout import *
from .geometry import *
from .learned_policies import *
from .lens import *
from .light import *
from .noise import *
from .policies import *
from .resize import *
from .safe_crops import *
from .target_crops import *
from .tilts import *
from .types import *
from .views import *
from .whole_images import *
from .windows import *

if not _typing.TYPE_CHECKING:  # type checkers take the names from the imports
    __all__ = [n for n, v in vars().items() if n[0] != "_" and not isinstance(v, _types.ModuleType)]
