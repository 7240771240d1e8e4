"""Memory of batches, and their way to a device.

NOTE on reuse. Fresh pages are zeroed by the system when they are touched first: for batches of 64
images that takes as long as decoding a few of them. A batch is therefore a tensor over memory of a
pool. It holds a NumPy view of it, which is collected when the last tensor over that memory is, be
it a slice that a user kept; then the memory goes back. Where there is a GPU, torch's own allocator
of pinned memory does the same, and also knows of copies that still run.

NOTE on copies. The thread that finishes a batch copies it, so copies overlap with loading and with
what the consumer's stream computes. The consumer's stream waits for the copy, not the CPU; and
memory of the batch is not given to another before that stream is done with it.
"""

import dataclasses
import math
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Blocks:
    """A pool of memory for batches.

    Parameters
    ----------
    most : int
        How many blocks are kept while they are unused.
    pinned : bool
        Whether to take page-locked memory from torch.
    """

    def __init__(self, most: int, pinned: bool) -> None:
        self.pinned = pinned
        self._free: deque[np.ndarray] = deque(maxlen=most)

    def __call__(
        self, shape: tuple[int, ...], dtype: torch.dtype, memory_format: torch.memory_format
    ) -> Tensor:
        """Return an uninitialised batch [B, C, H, W]."""
        last = memory_format is torch.channels_last
        stored = (shape[0], *shape[2:], shape[1]) if last else shape
        if self.pinned:
            block = torch.empty(stored, dtype=dtype, device="cpu", pin_memory=True)
        else:
            size = math.prod(shape) * dtype.itemsize
            block = self._memory(size).view(dtype).view(stored)
        return block.permute(0, 3, 1, 2) if last else block

    def _memory(self, size: int) -> Tensor:
        owner = self._take(size)
        view = owner[:size]
        back = weakref.finalize(view, self._free.append, owner)
        back.atexit = False
        return torch.from_numpy(view)

    def _take(self, size: int) -> np.ndarray:
        while True:
            try:
                owner = self._free.pop()
            except IndexError:
                # Linux gives NumPy's large arrays huge pages, which are touched sooner.
                return np.empty(size, np.uint8)
            if size <= owner.size <= 4 * size + 4096:
                return owner


@dataclasses.dataclass(slots=True)
class Sent:
    """A batch on its way, and the event that says that it has arrived."""

    value: Any
    event: Any
    source: Any  # pinned memory stays as it is until then


class Transfer:
    """Sends batches to a device, and receives them.

    Parameters
    ----------
    device : torch.device
        The CPU: nothing is copied.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def send(self, value: Any) -> Any:
        """Begin to copy; called by the loader's threads."""
        if self.device.type == "cpu":
            return value
        return self.run(lambda: (moved(value, self.device), value))

    def run(self, make: Callable[[], tuple[Any, Any]]) -> Any:
        """Begin what makes a batch on the device: the batch, and what it is made of."""
        if self.stream is None:
            return make()[0]
        with torch.cuda.stream(self.stream):
            value, source = make()
            event = torch.cuda.Event()
            event.record(self.stream)
        return Sent(value, event, source)

    def receive(self, sent: Any) -> Any:
        """Return a batch to the consumer, whose current stream waits for it."""
        if not isinstance(sent, Sent):
            return sent
        current = torch.cuda.current_stream(self.device)
        current.wait_event(sent.event)
        for tensor in _tensors(sent.value):
            tensor.record_stream(current)
        return sent.value


def moved(value: Any, device: torch.device) -> Any:
    """Return a batch whose tensors are on a device; what is no tensor stays as it is."""
    return _mapped(value, lambda tensor: tensor.to(device, non_blocking=True))


def _tensors(value: Any) -> list[Tensor]:
    found: list[Tensor] = []

    def note(tensor: Tensor) -> Tensor:
        found.append(tensor)
        return tensor

    _mapped(value, note)
    return found


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(inner, change) for inner in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(inner, change) for inner in value)
    return value
