"""A pytest plugin for PTX_GUARD=1: tensors made of arrays get memory of torch, which is guarded."""

import numpy as np
import torch

_shared = torch.from_numpy


def _copied(ndarray: np.ndarray) -> torch.Tensor:
    """As torch.from_numpy, with the array's strides; what is not owned alone stays shared."""
    tensor = _shared(ndarray)
    if not ndarray.flags.writeable:
        return tensor
    copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    return copy.copy_(tensor)


torch.from_numpy = _copied
