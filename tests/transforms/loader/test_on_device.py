"""Batches that are transformed as a whole, on a device: those of the loader's other way."""

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2
from visops import transforms
from visops.jpeg.file import JpegFile
from visops.transforms.chain.decode_ahead import Decoded
from visops.transforms.loading import batch as batches
from visops.transforms.sample.files import DamagedFileError

from transforms.loader.cases import ARRAYS, BATCH, CHAINS, PHOTOS, expected, loaded

from .photos import COUNT, FILES, Detections, chain, equal, size_of


def on_device(samples: Any, own: Any, **options: Any) -> list[Any]:
    return loaded(samples, own, augment_on="device", **options)


@pytest.mark.parametrize("images", [PHOTOS, ARRAYS, [photo / 255 for photo in PHOTOS]])
def test_decoded_images(images: list[Any]) -> None:
    own = transforms.Compose([*chain().transforms[1:]], seed=3)
    samples = [(image, index) for index, image in enumerate(images)]
    assert equal(on_device(samples, own), loaded(samples, own))


def test_threads_epochs_and_a_resume() -> None:
    own = chain()
    options: dict[str, Any] = {"shuffle": True, "seed": 2, "augment_on": "device"}
    loader = transforms.Loader(FILES, own, BATCH, threads=1, **options)
    first, second = list(loader), list(loader)
    assert not torch.equal(first[0], second[0])
    for threads in (2, 4):
        again = transforms.Loader(FILES, own, BATCH, threads=threads, **options)
        iterator = iter(again)
        head = [next(iterator), next(iterator)]
        rest = transforms.Loader(FILES, own, BATCH, threads=threads, **options)
        rest.load_state_dict(again.state_dict())
        assert equal([*head, *rest], first)
        assert equal(list(rest), second)


def test_each_file_is_decoded_once_and_only_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []

    def noting(pixels: Any, part: Any) -> Decoded:
        decoded.append(pixels.shape[0] * pixels.shape[1])
        return Decoded(pixels, part)

    monkeypatch.setattr("visops.transforms.loading.samples.Decoded", noting)
    monkeypatch.setattr(JpegFile, "decode", lambda *_: pytest.fail("decoded again"))
    on_device(FILES, chain())
    assert len(decoded) == COUNT
    assert sum(decoded) < 0.8 * sum(math.prod(size_of(index)) for index in range(COUNT))


def test_a_collate_of_one_s_own_gets_samples() -> None:
    def note(samples: list[Any]) -> Any:
        return [{**sample, "boxes": sample["boxes"].tolist()} for sample in samples]

    options: dict[str, Any] = {"collate": note}
    assert equal(
        on_device(Detections(), chain(), **options), loaded(Detections(), chain(), **options)
    )


@pytest.mark.parametrize("kind", ["boxes", "annotations", "names", "numbers"])
def test_a_collate_of_one_s_own_gets_labels_that_followed(kind: str) -> None:
    """Labels leave with their boxes, and swap in mirrored photos, as in samples of threads."""
    box = [[0.0, 0, 9, 9], [50.0, 20, 70, 40], [30.0, 30, 50, 50]]
    entries: dict[str, Any] = {
        "boxes": {"boxes": torch.tensor(box), "labels": ["left", "right", "both"]},
        "annotations": {
            "annotations": [
                {"bbox": [x, y, x2 - x, y2 - y], "category_id": index, "iscrowd": 0}
                for index, (x, y, x2, y2) in enumerate(box)
            ]
        },
        "names": {"labels": "left"},
        "numbers": {"labels": 1},
    }
    samples = [{"image": file, **entries[kind]} for file in FILES]
    pairs: Any = [("left", "right")] if kind in ("boxes", "names") else [(1, 2)]
    own = chain(boxes="sanitize", label_pairs=pairs)

    def labels(batches: list[Any]) -> list[Any]:
        found = [sample for batch in batches for sample in batch]
        if kind == "annotations":
            return [[own["category_id"] for own in x["annotations"]] for x in found]
        return [x["labels"] for x in found]

    options: dict[str, Any] = {"collate": list}
    found = labels(on_device(samples, own, **options))
    assert found == labels(loaded(samples, own, **options))
    assert len({str(own) for own in found}) > 1


def test_samples_with_and_without_annotations() -> None:
    """A photo without objects, as CocoDetection gives it."""
    crowd = [{"bbox": [1.0, 2, 20, 30], "category_id": 3, "area": 600.0, "iscrowd": 0}]
    samples = [(file, crowd if index % 2 else []) for index, file in enumerate(FILES)]
    assert equal(on_device(samples, chain()), loaded(samples, chain()))


def test_damaged_files() -> None:
    samples = [*FILES[:3], FILES[3][: len(FILES[3]) // 2], *FILES[4:]]
    with pytest.raises(DamagedFileError, match="Loader: sample 3"):
        on_device(samples, chain())
    options: dict[str, Any] = {"on_error": "skip"}
    found = on_device(samples, chain(), **options)
    assert [len(batch) for batch in found] == [4, 5, 5, 5, 3]
    assert equal(found, loaded(samples, chain(), **options))


def test_errors_of_a_chain_are_raised() -> None:
    own = chain(v2.Lambda(lambda _: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        on_device(FILES, own)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"augment_on": "gpu"}, "augment_on is 'gpu', must be 'cpu' or 'device'"),
        ({"augment_on": None}, "augment_on is None"),
    ],
)
def test_wrong_arguments(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        transforms.Loader(FILES, chain(), BATCH, **options)


def test_only_a_chain_can_take_a_batch() -> None:
    views: Callable[..., Any] = transforms.Views([chain(), chain()], seed=0)
    with pytest.raises(TypeError, match="chain is a Views, must be a Compose"):
        transforms.Loader(FILES, views, BATCH, augment_on="device")


def test_what_print_says() -> None:
    shown = repr(transforms.Loader(FILES, chain(), BATCH, augment_on="device"))
    assert "decode: without the lock; on cpu, by batches: DecodeJpeg, RandomResizedCrop" in shown


@pytest.mark.cuda
@pytest.mark.parametrize("name", [name for name in CHAINS if name != "another package's"])
def test_a_gpu(name: str) -> None:
    """Another package's noise has other numbers there."""
    own = CHAINS[name]()
    found = on_device(Detections(), own, device="cuda")
    for batch in found:
        tensors: list[Tensor] = batches._tensors(batch)
        assert all(tensor.is_cuda for tensor in tensors)
    here = [batches.moved(batch, torch.device("cpu")) for batch in found]
    assert equal(here, loaded(Detections(), own), within=1e-5)


Pair = namedtuple("Pair", ["image", "name"])


def test_nested_values_move() -> None:
    value = {"a": [torch.zeros(2), "text"], "b": Pair(torch.ones(3), None), "c": (1, torch.ones(1))}
    found = batches.moved(value, torch.device("meta"))
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


def test_what_is_no_device() -> None:
    with pytest.raises(TypeError, match=r"Loader: device is \['cpu'\], must be a torch.device"):
        transforms.Loader(FILES, chain(), 5, device=["cpu"])  # type: ignore[arg-type]


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

    monkeypatch.setattr(batches, "moved", moved)
    made = batches.Transfer(torch.device("cuda"))
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
            on_gpu = batches._tensors(batch)
            assert all(tensor.is_cuda for tensor in on_gpu)
            assert equal(batches.moved(batch, torch.device("cpu")), other)


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
