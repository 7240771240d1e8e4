"""Batches on a device: nested values, streams, and what a GPU gets."""

from collections import namedtuple
from typing import Any

import pytest
import torch
from visops import transforms
from visops.transforms.loading import blocks

from transforms.loader.cases import expected, loaded

from .photos import FILES, Detections, chain, equal

Pair = namedtuple("Pair", ["image", "name"])


def test_nested_values_move() -> None:
    value = {"a": [torch.zeros(2), "text"], "b": Pair(torch.ones(3), None), "c": (1, torch.ones(1))}
    found = blocks.moved(value, torch.device("meta"))
    assert found["a"][0].is_meta
    assert found["a"][1] == "text"
    assert type(found["b"]) is Pair
    assert found["b"].image.is_meta
    assert found["c"][1].is_meta


def test_a_device_without_streams() -> None:
    batches = loaded([(file, 1) for file in FILES], chain(), device="meta")
    assert [tuple(images.shape) for images, _ in batches][-1] == (3, 3, 24, 24)
    assert all(value.is_meta for batch in batches for value in batch)


def test_the_cpu_is_what_there_is_by_default() -> None:
    assert equal(loaded(FILES, chain(), device="cpu"), expected(FILES, chain()))


def test_a_device_that_is_not_there() -> None:
    if torch.cuda.is_available():
        pytest.skip("it is")
    with pytest.raises((RuntimeError, AssertionError)):
        transforms.Loader(FILES, chain(), 5, device="cuda")


class Stream:
    """Notes what is asked of a stream, in order."""

    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def __enter__(self) -> None:
        self.log.append(f"enter {self.name}")

    def __exit__(self, *_: Any) -> None:
        self.log.append(f"leave {self.name}")

    def wait_event(self, event: Any) -> None:
        self.log.append(f"{self.name} waits for {event.name}")


class Event:
    def __init__(self, log: list[str]) -> None:
        self.log, self.name = log, "the copy"

    def record(self, stream: Stream) -> None:
        self.log.append(f"recorded on {stream.name}")


def test_the_order_of_calls_on_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies on a stream of their own; the consumer's stream waits, and owns the memory then."""
    log: list[str] = []
    own, current = Stream(log, "own"), Stream(log, "current")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: own)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: stream)
    monkeypatch.setattr(torch.cuda, "Event", lambda: Event(log))
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: current)
    record = lambda tensor, stream: log.append(f"memory used by {stream.name}")  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "record_stream", record)

    def moved(value: Any, device: torch.device) -> Any:
        log.append("copied")
        return value

    monkeypatch.setattr(blocks, "moved", moved)
    made = blocks.Transfer(torch.device("cuda"))
    value = (torch.zeros(2), [torch.ones(1)], 3)
    sent = made.send(value)
    assert log == ["enter own", "copied", "recorded on own", "leave own"]
    assert sent.source is value
    log.clear()
    assert made.receive(sent) is value
    assert log == ["current waits for the copy", *["memory used by current"] * 2]


@pytest.mark.cuda
def test_batches_on_a_gpu() -> None:
    for samples in ([(file, i) for i, file in enumerate(FILES)], Detections()):
        own = chain()
        found = loaded(samples, own, device="cuda")
        want = expected(samples, own)
        for batch, other in zip(found, want, strict=True):
            on_gpu = blocks._tensors(batch)
            assert all(tensor.is_cuda for tensor in on_gpu)
            assert equal(blocks.moved(batch, torch.device("cpu")), other)


@pytest.mark.cuda
def test_batches_are_pinned_where_there_is_a_gpu() -> None:
    assert all(batch.is_pinned() for batch in loaded(FILES, chain()))


@pytest.mark.cuda
def test_memory_is_not_used_again_before_a_copy_has_ended() -> None:
    """Batches are copied and dropped at once, while the GPU is busy."""
    own, copies = chain(size=128), []
    busy = torch.ones(4096, 4096, device="cuda")
    for batch in transforms.Loader(FILES * 20, own, 16, threads=4):
        busy = busy @ busy * 1e-4
        copies.append(batch.to("cuda", non_blocking=True))
        del batch
    torch.cuda.synchronize()
    again = list(transforms.Loader(FILES * 20, own, 16, threads=1))
    assert all(torch.equal(a.cpu(), b) for a, b in zip(copies, again, strict=True))
