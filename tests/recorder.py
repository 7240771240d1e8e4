"""Records what the operators' fronts ask of torch, to find what would wait for a GPU."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

# Operators of torch whose results' sizes depend on values, or that copy to or from the host. On
# CUDA each of them waits. scatter() and index_put() do under deterministic algorithms.
WAITING = {
    *("masked_select", "nonzero", "nonzero_static", "unique", "_unique2", "unique_consecutive"),
    *("bincount", "repeat_interleave", "_local_scalar_dense", "item", "equal", "is_nonzero"),
    *("scatter", "scatter_", "index_put", "index_put_", "_index_put_impl_"),
}


class Recorder(TorchDispatchMode):
    """Collects the calls that are made inside visops' operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "visops":
            with self:  # for the calls that the kernel makes
                keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
                return func.redispatch(keys, *args, **kwargs)
        self.calls.append((func._schema.name.removeprefix("aten::"), args, kwargs))
        return func(*args, **kwargs)

    @property
    def names(self) -> set[str]:
        return {name for name, _, _ in self.calls}

    @property
    def waits(self) -> list[str]:
        """What would wait for a GPU that the tensors were on."""
        return [
            name
            for name, args, kwargs in self.calls
            if name in WAITING
            or (name in ("to", "_to_copy") and _waits_for_a_copy(args, kwargs))
            or (name == "index" and any(_is_mask(index) for index in args[1]))
        ]


def _waits_for_a_copy(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    devices = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.device)]
    return bool(devices) and not kwargs.get("non_blocking")


def _is_mask(index: Tensor | None) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)
