"""Files that one call of C++ decodes and transforms, with what is beside them."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest
import torch
from jpeg.files import by_pillow, picture
from visops import transforms

from transforms.samples import SIZE, assert_same, in_one_call, noted, numbers, points, typed_boxes

PHOTO_FILE = by_pillow(picture(*SIZE, 0), quality=90)

FILE_SAMPLES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: PHOTO_FILE,
    "bytearray": lambda: bytearray(PHOTO_FILE),
    "memoryview": lambda: memoryview(PHOTO_FILE),
    "pair": lambda: (PHOTO_FILE, 3),
    "label first": lambda: (torch.tensor(3), "name", PHOTO_FILE),
    "dict": lambda: {"label": 3, "image": PHOTO_FILE, "id": "x"},
}

UNUSUAL_FILES: dict[str, Callable[[], Any]] = {
    "list": lambda: [PHOTO_FILE, PHOTO_FILE],
    "list of one": lambda: [PHOTO_FILE],
    "array": lambda: np.frombuffer(PHOTO_FILE, np.uint8),
    "two": lambda: (PHOTO_FILE, PHOTO_FILE),
    "another mask": lambda: {"image": PHOTO_FILE, "mask": numbers(7, 7)},
    "long mask": lambda: {"image": PHOTO_FILE, "mask": numbers(*SIZE).long()},
    "area": lambda: {"image": PHOTO_FILE, "boxes": typed_boxes(), "area": [1.0, 2, 3]},
    "png": lambda: bytes(cv2.imencode(".png", numbers(*SIZE, 3).numpy())[1]),
    "damaged": lambda: PHOTO_FILE[: len(PHOTO_FILE) // 2],
    "damaged pair": lambda: (PHOTO_FILE[:300], 3),
    "text": lambda: b"no photo",
    "nothing": lambda: b"",
    "other name": lambda: {"photo": PHOTO_FILE},
}


def of_files(*more: Any, **options: Any) -> transforms.Compose:
    steps = [transforms.DecodeJpeg(), transforms.RandomResizedCrop(24), *more]
    return transforms.Compose(steps, seed=0, **options)


def file_chains() -> list[transforms.Compose]:
    floats = [transforms.ToDtype(torch.float32, scale=True), transforms.Normalize([0.5], [0.2])]
    return [
        of_files(),
        of_files(transforms.ColorJitter(0.3, 0.3, 0.3), *floats),
        of_files(transforms.RandAugment(), *floats),
        of_files(transforms.GaussianBlur(3), *floats, exact=True),
        of_files(transforms.ColorJitter(0.3, 0.8, 0.3), *floats, exact=True),
        of_files(transforms.ToDtype(torch.float32, scale=True), keys={"image": ["photo"]}),
        of_files(transforms.ToPILImage()),
    ]


def of_new(make: Callable[[], Any], chain: transforms.Compose, **options: Any) -> Any:
    """Each call has a sample of its own."""
    return chain(make(), **options)


@pytest.mark.matrix
@pytest.mark.parametrize("name", FILE_SAMPLES)
def test_files(name: str) -> None:
    for chain in file_chains():
        for index in range(4):
            found, expected = in_one_call(of_new, FILE_SAMPLES[name], chain, index=index)
            if isinstance(found, PIL.Image.Image):
                found, expected = np.asarray(found), np.asarray(expected)
            assert_same(found, expected)


FILE_TARGETS: dict[str, Callable[[], Any]] = {
    "mask": lambda: {"image": PHOTO_FILE, "mask": numbers(*SIZE)},
    "array": lambda: {"mask": numbers(*SIZE).numpy(), "image": bytearray(PHOTO_FILE)},
    "pair": lambda: (PHOTO_FILE, {"boxes": typed_boxes(), "labels": ["a", "b", "c"]}),
    "all": lambda: {
        "image": PHOTO_FILE,
        "boxes": typed_boxes(),
        "labels": torch.tensor([1, 2, 3]),
        "masks": numbers(3, *SIZE, high=2),
        "keypoints": points(),
    },
}


@pytest.mark.parametrize("policy", ["keep", "sanitize"])
@pytest.mark.parametrize("name", FILE_TARGETS)
def test_what_is_beside_files_moves_with_them(name: str, policy: str) -> None:
    to_floats = transforms.ToDtype(torch.float32, scale=True)
    several = [transforms.RandomRotation(30), transforms.GaussianBlur(3), to_floats]
    for chain in (
        of_files(boxes=policy),
        of_files(*several, boxes=policy),
        of_files(*several, boxes=policy, exact=True),
    ):
        for index in range(6):
            assert_same(*in_one_call(of_new, FILE_TARGETS[name], chain, index=index))
    visible = of_files(boxes="sanitize", min_visibility=0.3)
    with noted() as went:
        found = visible(FILE_TARGETS[name](), index=0)
    assert went == [False]  # before anything is decoded
    with noted(direct=False):
        assert_same(found, visible(FILE_TARGETS[name](), index=0))


@pytest.mark.parametrize("name", ["bytes", "pair", "dict"])
def test_recorded_files(name: str) -> None:
    for chain in file_chains()[:3]:
        (found, params), (expected, wanted) = in_one_call(
            of_new, FILE_SAMPLES[name], chain, index=3, return_params=True
        )
        assert_same(found, expected)
        assert (params.names, params.size.tolist()) == (wanted.names, wanted.size.tolist())
        assert_same(params.steps, wanted.steps)
        assert_same(chain(FILE_SAMPLES[name](), params=params), found)


@pytest.mark.parametrize("name", UNUSUAL_FILES)
def test_unusual_files(name: str) -> None:
    for chain in file_chains()[:3]:
        outcomes: list[Any] = []
        for direct in (False, True):
            with noted(direct) as went:
                try:
                    outcomes.append(chain(UNUSUAL_FILES[name](), epoch=2))
                except (TypeError, ValueError) as error:
                    outcomes.append(str(error))
            assert went in ([False], [])  # splitting may be what refuses it
            chain._calls = type(chain._calls)()  # type: ignore[misc]
        assert_same(*outcomes)


@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_a_second_photo_is_refused_whatever_came_before(kind: str) -> None:
    """What it is, its content says: no sample of the same structure tells."""

    def sample(beside: Any) -> Any:
        return (PHOTO_FILE, beside) if kind == "tuple" else {"image": PHOTO_FILE, "extra": beside}

    chain = of_files()
    for beside in (b"meta", np.zeros(5, np.uint8)):
        chain(sample(beside), index=0)
    for beside in (PHOTO_FILE, np.frombuffer(PHOTO_FILE, np.uint8)):
        with pytest.raises(TypeError, match="is a JPEG file beside the image"):
            chain(sample(beside), index=0)
    named = of_files(keys={"other": ["extra"]})
    with noted() as went:
        found = named({"image": PHOTO_FILE, "extra": PHOTO_FILE}, index=0)
    assert (went, found["extra"]) == ([True], PHOTO_FILE)


def test_paths(tmp_path: Path) -> None:
    """Alone, in tuples and dicts, in batches and in `collate`; a missing one is named."""
    paths = [tmp_path / f"{index}.jpg" for index in range(3)]
    files = [by_pillow(picture(*SIZE, index), quality=90) for index in range(3)]
    for path, file in zip(paths, files, strict=True):
        path.write_bytes(file)
    chain, (one, two, three), text = of_files(), files, str(paths[1])
    boxes = typed_boxes()
    singles: list[tuple[Any, Any]] = [
        (paths[0], one),
        (text, two),
        ((text, 3), (two, 3)),
        ((3, paths[2]), (3, three)),
        ((one, "name"), (one, "name")),
        ({"image": text, "boxes": boxes}, {"image": two, "boxes": boxes}),
        ({"image": {"bytes": two, "path": None}}, {"image": two}),
    ]
    for given, same in singles:
        with noted() as went:
            assert_same(chain(given, index=1), chain(same, index=1))
        assert went == [True, True]
    several: list[tuple[Any, Any]] = [
        (paths, files),
        ((list(map(str, paths)), [0, 1, 2]), (files, [0, 1, 2])),
        ({"image": paths, "path": ["a", "b", "c"]}, {"image": files, "path": ["a", "b", "c"]}),
    ]
    for given, same in several:
        assert_same(chain(given, index=range(3)), chain(same, index=range(3)))
    pairs = [(str(path), index) for index, path in enumerate(paths)]
    same = list(zip(files, range(3), strict=True))
    assert_same(chain.collate(pairs, index=range(3)), chain.collate(same, index=range(3)))
    views = transforms.Views([of_files(), of_files()])
    assert_same(views(text, index=0), views(two, index=0))
    assert_same(chain.make_params(text, index=1).steps, chain.make_params(two, index=1).steps)
    with pytest.raises(FileNotFoundError, match=r"missing\.jpg"):
        chain(tmp_path / "missing.jpg")
    (tmp_path / "text.jpg").write_bytes(b"no photo")
    with pytest.raises(ValueError, match="DecodeJpeg: the sample is not a JPEG:"):
        chain(tmp_path / "text.jpg")


def test_files_in_the_last_layout_and_copies() -> None:
    chain = of_files(memory_format=torch.channels_last)
    with noted() as went:
        assert chain(PHOTO_FILE, index=0).is_contiguous(memory_format=torch.channels_last) is False
        twin = pickle.loads(pickle.dumps(of_files()))
        assert_same(twin(PHOTO_FILE, index=0), of_files()(PHOTO_FILE, index=0))
    assert went == [True, True]  # no pipeline has that layout
