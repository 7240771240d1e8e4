"""Batches to a device, on a stream of their own.

The thread that finishes a batch copies it, so copies overlap with loading and with what the
consumer's stream computes. The consumer's stream waits for the copy, not the CPU; and memory of the
batch is not given to another before that stream is done with it.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


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
