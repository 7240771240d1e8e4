"""Files that C++ transforms as a whole: the results of all others, and what does not go there."""

import pickle
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pytest
import torch
from jpeg.files import by_pillow, picture
from visops import transforms

from transforms.samples import SIZE, assert_same, noted, numbers, typed_boxes

FILE = by_pillow(picture(*SIZE, 0), quality=90)
FILES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: FILE,
    "bytearray": lambda: bytearray(FILE),
    "memoryview": lambda: memoryview(FILE),
    "pair": lambda: (FILE, 3),
    "label first": lambda: (torch.tensor(3), "name", FILE),
    "dict": lambda: {"label": 3, "image": FILE, "id": "x"},
}
UNUSUAL_FILES: dict[str, Callable[[], Any]] = {
    "list": lambda: [FILE, FILE],
    "list of one": lambda: [FILE],
    "array": lambda: np.frombuffer(FILE, np.uint8),
    "two": lambda: (FILE, FILE),
    "mask": lambda: {"image": FILE, "mask": numbers(*SIZE)},
    "area": lambda: {"image": FILE, "boxes": typed_boxes(), "area": [1.0, 2, 3]},
    "png": lambda: bytes(cv2.imencode(".png", numbers(*SIZE, 3).numpy())[1]),
    "damaged": lambda: FILE[: len(FILE) // 2],
    "damaged pair": lambda: (FILE[:300], 3),
    "text": lambda: b"no photo",
    "nothing": lambda: b"",
    "other name": lambda: {"photo": FILE},
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


@pytest.mark.matrix
@pytest.mark.parametrize("name", FILES)
def test_files(name: str) -> None:
    for chain in file_chains():
        for index in range(4):
            with noted(direct=False):
                expected = chain(FILES[name](), index=index)
            with noted() as went:
                found = chain(FILES[name](), index=index)
            assert went == [True]
            if isinstance(found, PIL.Image.Image):
                found, expected = np.asarray(found), np.asarray(expected)
            assert_same(found, expected)


@pytest.mark.parametrize("name", ["bytes", "pair", "dict"])
def test_recorded_files(name: str) -> None:
    for chain in file_chains()[:3]:
        with noted(direct=False):
            expected, wanted = chain(FILES[name](), index=3, return_params=True)
        with noted() as went:
            found, params = chain(FILES[name](), index=3, return_params=True)
        assert went == [True]
        assert_same(found, expected)
        assert (params.names, params.size.tolist()) == (wanted.names, wanted.size.tolist())
        assert_same(params.steps, wanted.steps)
        assert_same(chain(FILES[name](), params=params), found)


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
            assert went == [False]
            chain._calls = type(chain._calls)()  # type: ignore[misc]
        assert_same(*outcomes)


def test_files_in_the_last_layout_and_copies() -> None:
    chain = of_files(memory_format=torch.channels_last)
    with noted() as went:
        assert chain(FILE, index=0).is_contiguous(memory_format=torch.channels_last) is False
        twin = pickle.loads(pickle.dumps(of_files()))
        assert_same(twin(FILE, index=0), of_files()(FILE, index=0))
    assert went == [True, True]  # no pipeline has that layout
