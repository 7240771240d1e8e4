"""Several views of each photo, which is decoded once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from visops import transforms as T

from .photos import COUNT, FILES, Detections, chain, equal, png, write

LABELLED = [(file, index % 3) for index, file in enumerate(FILES)]
IMAGES = [visops.decode_jpeg(np.frombuffer(file, np.uint8)) for file in FILES]


def crops(*more: Any, **options: Any) -> list[T.Compose]:
    wide = chain(*more, size=24, **options)
    narrow = T.Compose(
        [T.DecodeJpeg(), T.RandomResizedCrop(10, scale=(0.05, 0.3)), *more],
        **{"seed": 5, **options},
    )
    return [wide, wide, narrow]


VIEWS: dict[str, Any] = {
    "in C++": crops,
    "channels last": lambda: crops(memory_format=torch.channels_last),
    "in Python": lambda: crops(torch.clone),
    "by torch's operators": lambda: crops(T.RandomOrder([T.RandomGrayscale(0.5)])),
    "other files": lambda: [chain(), T.Compose([T.DecodeJpeg("gray"), T.Resize((9, 9))], seed=1)],
}


@pytest.mark.parametrize("kind", VIEWS)
def test_views_of_recorded_parameters(kind: str) -> None:
    views = T.Views(VIEWS[kind]())
    expected = views(LABELLED[2], index=2)
    found, params = views(LABELLED[2], index=2, return_params=True)
    again = views(LABELLED[2], params=params)
    for own in (found, again):
        assert all(torch.equal(a[0], b[0]) for a, b in zip(own, expected, strict=True))


@pytest.mark.parametrize("kind", VIEWS)
def test_views_are_those_of_a_call(kind: str, tmp_path: Path) -> None:
    views = T.Views(VIEWS[kind]())
    expected = [views(sample, index=i, epoch=0) for i, sample in enumerate(LABELLED)]
    collated = views.collate(LABELLED[:5], index=range(5), epoch=0)
    for samples in (LABELLED, list(zip(write(tmp_path), [n for _, n in LABELLED], strict=True))):
        batches = list(T.Loader(samples, views, 5, threads=3))
        for number, (images, labels) in enumerate(batches):
            own = expected[5 * number : 5 * number + 5]
            assert type(images) is list
            assert labels.tolist() == [sample[0][1] for sample in own]
            for view, found in enumerate(images):
                assert torch.equal(found, torch.stack([sample[view][0] for sample in own]))
        assert all(map(torch.equal, batches[0][0], (images for images, _ in collated)))
    alone = next(iter(T.Loader(FILES, views, 5)))
    assert type(alone) is list
    assert all(map(torch.equal, alone, batches[0][0]))


def test_a_photo_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The union of the windows, at the least reduction of any: a view alone may differ by that."""
    small = [T.DecodeJpeg(reduced=True), T.Resize((8, 8))]  # alone, at an eighth of the scale
    whole = [T.DecodeJpeg(reduced=False), *small[1:]]
    views = T.Views([T.Compose(small), T.Compose([T.DecodeJpeg(), T.CenterCrop(30)])], seed=0)
    for file in FILES[:8]:
        first, second = views(file)
        exact = T.Compose(whole)(file)
        assert (first.int() - exact.int()).abs().max() <= 1
        assert (first.int() - T.Compose(small)(file).int()).abs().max() > 1
        other = T.Compose([T.DecodeJpeg(), T.CenterCrop(30)])(file)
        assert torch.equal(second, other)
    from visops.transforms.chain import decode_ahead as ahead

    calls: list[Any] = []
    plain = ahead.decoded_part  # type: ignore[attr-defined]

    def counted(*given: Any) -> Any:
        calls.append(given[1])
        return plain(*given)

    monkeypatch.setattr(ahead, "decoded_part", counted)
    monkeypatch.setattr("visops.transforms.chain.decode.decoded_part", lambda *own: plain(*own))
    T.Views(crops(torch.clone))(FILES[0], index=0)
    T.Views(crops())(FILES[0], index=0)
    assert len(calls) == 2


def test_views_do_not_share_memory() -> None:
    only = T.Compose([T.DecodeJpeg()], seed=0)
    first, second = T.Views([only, only])(FILES[0], index=0)
    before = second.clone()
    first.zero_()
    assert torch.equal(second, before)


@pytest.mark.parametrize("files", [True, False])
def test_what_else_a_sample_holds_comes_once(files: bool) -> None:
    steps = [T.DecodeJpeg()] if files else []
    views = T.Views([T.Compose([*steps, T.RandomCrop(size)], seed=1) for size in (8, 9)])
    photos: list[Any] = FILES if files else IMAGES
    samples = [{"image": photo, "name": f"{n}", "label": n} for n, photo in enumerate(photos)]
    batch = next(iter(T.Loader(samples, views, 4)))
    assert [tuple(image.shape) for image in batch["image"]] == [(4, 3, 8, 8), (4, 3, 9, 9)]
    assert batch["name"] == ["0", "1", "2", "3"]
    assert batch["label"].tolist() == [0, 1, 2, 3]


def test_targets_move_with_each_view() -> None:
    views = T.Views(crops())
    batches = list(T.Loader(Detections(), views, 5, threads=2))
    assert type(batches[0]) is tuple
    for number, own in enumerate(views.chains):
        samples = [Detections()[index] for index in range(5)]
        expected = own.collate(samples, index=range(5), epoch=0)
        assert equal(batches[0][number]["labels"], expected["labels"])
        assert batches[0][number]["mask"].shape[-1] == (24, 24, 10)[number]


def test_a_collate_gets_the_views_of_each_sample() -> None:
    views = T.Views(crops())
    seen: list[Any] = []
    list(T.Loader(LABELLED, views, 5, threads=1, collate=seen.append))
    sample = views(LABELLED[6], index=6, epoch=0)
    assert equal(seen[1][1], sample)


def test_damaged_and_other_files() -> None:
    samples = list(LABELLED)
    samples[2] = (FILES[2][:200], 2)
    samples[3] = (png(IMAGES[3][..., ::-1].copy()), 0)
    views = T.Views(crops())
    loader = T.Loader(samples, views, 5, on_error="skip")
    images, labels = next(iter(loader))
    assert labels.tolist() == [0, 1, 0, 1]
    expected = views(samples[3], index=3, epoch=0)
    assert all(torch.equal(found[2], own) for found, (own, _) in zip(images, expected, strict=True))
    with pytest.raises(ValueError, match=r"Loader: sample 2: "):
        list(T.Loader(samples, views, 5))
    full = T.Loader(samples, views, 5, on_error="skip", drop_last=True)
    assert [len(labels) for _, labels in full] == [5] * (COUNT // 5)
    assert "3 views, each file decoded once: without the lock" in repr(full)


def test_seeds_and_parameters_of_views() -> None:
    with pytest.raises(ValueError, match="must be all with a seed, or all without"):
        T.Views([T.Compose([T.Pad(1)], seed=0), T.Compose([T.Pad(1)])])
    with pytest.raises(ValueError, match="params has 0 parts, must have 2"):
        T.Views([[T.Pad(1)]] * 2)(torch.zeros(3, 5, 5), params=())
