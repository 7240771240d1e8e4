"""A loader's batches, sample by sample or on a device, are those of `Compose.collate`."""

import sys
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, default_collate
from torchvision import tv_tensors
from visops import transforms
from visops.transforms.chain.compile import file_pass
from visops.transforms.loading.batch import Blocks

from transforms.loader.cases import ARRAYS, BATCH, CHAINS, PHOTOS, SAMPLES, expected, loaded

from .photos import COUNT, FILES, Detections, chain, equal

SLOW = ("values at the end", "another package's")


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_of_every_kind(name: str) -> None:
    own = chain()
    wanted = expected(SAMPLES[name], own)
    for way in ("cpu", "device"):
        assert equal(loaded(SAMPLES[name], own, augment_on=way), wanted)


@pytest.mark.parametrize("samples", ["files and labels", "detections"])
@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_every_kind(name: str, samples: str) -> None:
    own = CHAINS[name]()
    assert (file_pass(own) is None) == (name in SLOW)
    wanted = expected(SAMPLES[samples], own)
    for way in ("cpu", "device"):
        assert equal(loaded(SAMPLES[samples], own, augment_on=way), wanted)


@pytest.mark.parametrize("threads", [1, 2, 5, 16])
def test_any_number_of_threads(threads: int) -> None:
    own = chain()
    samples = SAMPLES["files and labels"]
    assert equal(loaded(samples, own, threads, prefetch=1 + threads % 3), expected(samples, own))


def test_batches_of_an_indexed_data_set() -> None:
    own, samples = chain(), SAMPLES["files and labels"]
    dataset = transforms.IndexedDataset(samples, own)
    loader = transforms.Loader(samples, own, BATCH, threads=2)
    for epoch in range(2):
        dataset.set_epoch(epoch)
        assert equal(list(loader), [tuple(b) for b in DataLoader(dataset, BATCH)])


def test_photos_that_are_decoded_already() -> None:
    steps = chain().transforms[1:]
    for photos in (
        [(photo, 3) for photo in PHOTOS],
        ARRAYS,
        [Image.fromarray(array) for array in ARRAYS],
        [{"image": tv_tensors.Image(photo), "label": 2} for photo in PHOTOS],
    ):
        own = transforms.Compose(steps, seed=4)
        assert equal(loaded(photos, own), expected(photos, own))


def decoded(index: int) -> dict[str, Any]:
    return Detections()[index] | {"image": PHOTOS[index]}


DECODED: dict[str, Any] = {
    "arrays": ARRAYS,
    "labelled": [(photo, index % 3) for index, photo in enumerate(PHOTOS)],
    "label first": [{"label": index, "image": photo} for index, photo in enumerate(PHOTOS)],
    "tensor labels": [(photo, torch.tensor(2)) for photo in PHOTOS],
    "detections": [decoded(index) for index in range(COUNT)],
    "pairs": [(Image.fromarray(ARRAYS[i]), {"boxes": decoded(i)["boxes"]}) for i in range(COUNT)],
}

OPTIONS: list[dict[str, Any]] = [
    {},
    {"boxes": "clamp"},
    {"boxes": "sanitize", "min_size": 4.0},
    {"memory_format": torch.channels_last},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", DECODED)
def test_decoded_samples_take_one_call(
    name: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the batch's own memory, whatever else they hold."""
    samples, own = DECODED[name], transforms.Compose(chain().transforms[1:], seed=4, **options)
    wanted = expected(samples, own)
    monkeypatch.setattr("visops.transforms.loading.samples.run_passes", None)
    batches = loaded(samples, own)
    assert equal(batches, wanted)
    image = batches[0]["image"] if isinstance(batches[0], dict) else batches[0]
    image = image[0] if isinstance(image, tuple) else image
    form = options.get("memory_format", torch.contiguous_format)
    assert image.is_contiguous(memory_format=form)
    alone = loaded(samples, own, collate=list)
    monkeypatch.undo()
    singly = [own(sample, index=index) for index, sample in enumerate(samples)]
    assert equal([sample for batch in alone for sample in batch], singly)


def test_views_of_decoded_samples_take_one_call_each(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = DECODED["labelled"]
    chains = [transforms.Compose(chain(size=size).transforms[1:]) for size in (24, 16)]
    views = transforms.Views(chains, seed=4)
    wanted = [
        (
            own.collate(
                [samples[i] for i in range(first, min(first + BATCH, COUNT))],
                index=range(first, min(first + BATCH, COUNT)),
            )
        )
        for own in views.chains
        for first in range(0, COUNT, BATCH)
    ]
    monkeypatch.setattr("visops.transforms.loading.several.run_passes", None)
    batches = list(transforms.Loader(samples, views, BATCH, threads=3))
    number = len(batches)
    for position, (images, labels) in enumerate(batches):
        assert equal(images, [wanted[position][0], wanted[number + position][0]])
        assert equal(labels, wanted[position][1])


def test_samples_that_one_call_refuses_run_as_before() -> None:
    """Typed images, and boxes that may be shares; grey photos as well as coloured ones."""
    own = transforms.Compose(chain().transforms[1:-1], seed=4)
    shares = [decoded(i) | {"boxes": decoded(i)["boxes"] / 100} for i in (1, 2, 3)]
    typed = [{"image": tv_tensors.Image(photo), "label": 2} for photo in PHOTOS]
    grey = [Image.fromarray(array).convert("L") for array in ARRAYS]
    for samples in (typed, grey):
        assert equal(loaded(samples, own), expected(samples, own))
    for run in (loaded, expected):
        with pytest.raises(ValueError, match=r"lies within \[0, 1\]"):
            run(shares, own)


def test_frames_of_videos() -> None:
    clips = [(torch.rand(4, 3, 20, 24), index) for index in range(7)]
    own = transforms.Compose([transforms.RandomResizedCrop(16)], seed=4, per_frame=False)
    assert equal(loaded(clips, own), expected(clips, own))


def test_a_collate_of_ones_own_gets_transformed_samples() -> None:
    """They are those of single calls, and may differ in size."""
    own = transforms.Compose([transforms.DecodeJpeg(), transforms.RandomHorizontalFlip()], seed=6)
    dataset = Detections()
    batches = loaded(dataset, own, collate=list)
    assert [len(batch) for batch in batches] == [5, 5, 5, 5, 3]
    for index, found in enumerate(sample for batch in batches for sample in batch):
        assert equal(found, own(dataset[index], index=index))
    both = loaded(SAMPLES["files and labels"], chain(), collate=default_collate)
    assert equal([tuple(b) for b in both], expected(SAMPLES["files and labels"], chain()))


@pytest.mark.parametrize("on", ["cpu", "device"])
def test_a_collate_that_draws_is_given_places_and_epoch(on: str) -> None:
    """By the number of its calls, it would draw what the threads' order says."""
    own = transforms.Compose([transforms.DecodeJpeg(), transforms.Resize((20, 30))], seed=6)
    mosaic = transforms.Mosaic(16, seed=3)
    plain = transforms.Mosaic(16)  # nothing could make its draws the same
    options: dict[str, Any] = {"augment_on": on, "collate": mosaic.collate}
    loaders = [transforms.Loader(FILES, own, BATCH, threads=n, **options) for n in (1, 4)]
    for epoch in range(2):
        first, second = (list(loader) for loader in loaders)
        assert equal(first, second)
        small = [own(file, index=index, epoch=epoch) for index, file in enumerate(FILES[:BATCH])]
        assert torch.equal(first[0], mosaic.collate(small, index=range(BATCH), epoch=epoch))
    assert loaded(FILES, own, collate=plain.collate)[0].shape == (BATCH, 3, 32, 32)

    seen: list[Any] = []

    def collate(samples: list[Any], *, index: Any, epoch: int) -> int:
        seen.append((list(index), epoch))
        return len(samples)

    order = [7, -1, 2]
    loader = transforms.Loader(FILES, own, 2, sampler=order, threads=1, collate=collate)
    loader.set_epoch(4)
    assert list(loader) == [2, 1]
    assert seen == [([7, COUNT - 1], 4), ([2], 4)]


@pytest.mark.parametrize("way", ["cpu", "device"])
def test_epochs_count_by_themselves(way: Any) -> None:
    own = chain()
    loader = transforms.Loader(FILES, own, BATCH, augment_on=way)
    assert loader.epoch == 0
    assert equal(list(loader), expected(FILES, own, 0))
    assert equal(list(loader), expected(FILES, own, 1))
    loader.set_epoch(7)
    assert equal(list(loader), expected(FILES, own, 7))
    assert loader.epoch == 8


def test_a_chain_without_a_seed() -> None:
    """The loader's seed is its seed; without either, torch's generator gives one."""
    plain = chain(seed=None)
    assert equal(loaded(FILES, plain, seed=5), expected(FILES, chain(seed=5)))
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(torch.cat(loaded(FILES, plain)))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_sizes_must_agree_unless_a_collate_takes_them() -> None:
    own = transforms.Compose([transforms.DecodeJpeg(), transforms.RandomHorizontalFlip()], seed=6)
    with pytest.raises(
        ValueError, match=r"sample 0 comes out with 60 rows and 90 columns, sample 1"
    ):
        loaded(FILES, own)


def test_negative_indices_draw_as_their_positions() -> None:
    own = chain()
    batches = transforms.Loader(FILES, own, 2, sampler=[-1, 3])
    assert torch.equal(next(iter(batches))[0], own(FILES[-1], index=COUNT - 1, epoch=0))


def test_memory_is_used_again_only_when_nobody_holds_it() -> None:
    own = chain()
    kept = [batch[1] for batch in transforms.Loader(FILES, own, BATCH, threads=2, prefetch=1)]
    values = [batch[1].clone() for batch in transforms.Loader(FILES, own, BATCH)]
    assert equal(kept, [batch[1] for batch in expected(FILES, own)])
    del values
    positions = set()
    for batch in transforms.Loader(FILES * 8, own, BATCH, threads=1, prefetch=1):
        positions.add(batch.data_ptr())
    assert len(positions) <= 4


def test_memory_goes_back_without_python() -> None:
    """A Ctrl-C that arrives in a callback written in Python is lost."""
    form = (2, 3, 40, 50), torch.uint8, torch.contiguous_format
    blocks = Blocks(1, pinned=False)
    batch = blocks(*form)
    address = batch.data_ptr()
    called: list[Any] = []
    sys.setprofile(lambda frame, event, _: called.append(frame) if event == "call" else None)
    try:
        del batch
    finally:
        sys.setprofile(None)
    assert not called
    assert blocks(*form).data_ptr() == address
