"""Arguments that the functions of suppression share."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._torch.arrays import refuse
from .._torch.unsupported_inputs import require_plain

_FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_WHY = "is not a whole number"


def whole_ids(op: str, name: str, ids: Any) -> Any:
    """Return ids or labels as integers: floating ones, as other libraries have them, if whole.

    Values on a CUDA device are not looked at, which would synchronize; fractions are dropped there.

    Raises
    ------
    ValueError
        A floating id is not a whole number.
    TypeError
        Floating ids are not in a dense tensor.
    """
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "f":
        whole = torch.from_numpy(np.array(np.isfinite(ids) & (ids == np.floor(ids))))
        refuse(op, name, ~whole, _WHY)
        return ids.astype(np.int64)
    if isinstance(ids, Tensor) and ids.dtype in _FLOATING:  # operators refuse other types
        require_plain(op, **{name: ids})
        refuse(op, name, ~(torch.isfinite(ids) & (ids == ids.floor())), _WHY)
        return ids.to(torch.int64)
    return ids
