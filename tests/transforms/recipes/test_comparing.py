"""``visops.compare``: the same parameters in both libraries, their values, and the command."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import fresh
import numpy as np
import pytest
import skimage.data
import torch
from bad_input import check
from PIL import Image
from visops.compare import compare
from visops.compare.__main__ import find_pipeline, kind_for, main

v2 = pytest.importorskip("torchvision.transforms.v2")
v1 = pytest.importorskip("torchvision.transforms")
A = pytest.importorskip("albumentations")

ARRAYS = [
    np.ascontiguousarray(photo[::3, ::3])
    for photo in (skimage.data.astronaut(), skimage.data.coffee(), skimage.data.chelsea())
] * 2
TENSORS = [torch.from_numpy(array).permute(2, 0, 1).contiguous() for array in ARRAYS]
PILS = [Image.fromarray(array) for array in ARRAYS]


@pytest.fixture(autouse=True)
def once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time each pipeline once: what it takes is not tested."""
    monkeypatch.setattr("visops.compare.comparison.ROUNDS", 1)


# What one of torchvision's versions or both draw, and how far results may differ on average: by
# rounding, by the pixels at a boundary, or at the rim of a crop, which is resized here with what
# lies outside.
DRAWN: dict[str, tuple[Any, float]] = {
    "ColorJitter": (lambda M: M.ColorJitter(0.4, 0.4, 0.4), 1.5),
    "GaussianBlur": (lambda M: M.GaussianBlur(5), 0.01),
    "RandomAffine": (lambda M: M.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), (-5, 5, -3, 3)), 0.1),
    "RandomApply": (lambda M: M.RandomApply([M.RandomCrop(50), M.RandomVerticalFlip()], 0.5), 0),
    "RandomCrop": (lambda M: M.RandomCrop(60, (3, 7)), 0),
    "RandomErasing": (lambda M: M.Compose([M.ToTensor(), M.RandomErasing(0.7, value=0.5)]), 1e-4),
    "RandomGrayscale": (lambda M: M.RandomGrayscale(0.5), 0.5),
    "RandomPerspective": (lambda M: M.RandomPerspective(p=0.7), 0.8),
    "RandomResizedCrop": (lambda M: M.RandomResizedCrop(64), 0.5),
    "RandomRotation": (lambda M: M.RandomRotation(30, expand=True), 0.1),
    "whole": (
        lambda M: M.Compose(
            [
                *(M.RandomResizedCrop(64), M.RandomHorizontalFlip(), M.ToTensor()),
                M.Normalize([0.4, 0.5, 0.6], [0.2, 0.3, 0.4]),
            ]
        ),
        0.5,
    ),
}
ONLY_V2: dict[str, tuple[Any, float]] = {
    "RandomCrop, padded": (lambda M: M.RandomCrop((200, 60), 2, pad_if_needed=True), 0),
    "RandomResize": (lambda M: M.RandomResize(30, 60), 0.2),
    "RandomShortestSize": (lambda M: M.RandomShortestSize([30, 60]), 0.2),
    "RandomZoomOut": (lambda M: M.RandomZoomOut(5), 0),
    "ScaleJitter": (lambda M: M.ScaleJitter((80, 80)), 0.2),
}
BY_ALBUMENTATIONS: dict[str, tuple[Any, float]] = {
    "ColorJitter": (lambda: A.ColorJitter(0.4, 0.4, 0.4, 0.0, p=0.7), 1.8),
    "RandomBrightnessContrast": (lambda: A.RandomBrightnessContrast(), 0.6),
    "RandomCrop": (lambda: A.RandomCrop(50, 60), 0),
    "RandomGamma": (lambda: A.RandomGamma(), 0.6),
    "RandomResizedCrop": (lambda: A.RandomResizedCrop((64, 64), p=0.8), 0.5),
    "Transpose": (lambda: A.Transpose(), 0),
}


CASES = {
    **{f"v2-{name}": (partial(make, v2), most) for name, (make, most) in (DRAWN | ONLY_V2).items()},
    **{f"v1-{name}": (partial(make, v1), most) for name, (make, most) in DRAWN.items()},
    **{f"A-{name}": case for name, case in BY_ALBUMENTATIONS.items()},
}


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize("name", CASES)
def test_both_get_the_same_parameters(name: str) -> None:
    make, most = CASES[name]
    pipeline = make()
    given: dict[str, Any] = {"pil": PILS, "tensor": TENSORS, "array": ARRAYS}
    photos = given[kind_for(pipeline)]
    found = compare(pipeline, photos).values
    assert (found.unlike, found.sizes) == ([], [])
    assert found.mean <= most
    assert found.theirs == pytest.approx(found.ours, rel=0.03)
    # Photos are far from each other, and so would be results of other parameters.
    assert found.theirs[1] > 30


def test_what_draws_for_itself_is_compared_by_statistics() -> None:
    found = compare(v2.Compose([v2.RandAugment(), v2.Resize((64, 64))]), TENSORS)
    assert found.values.unlike == ["RandAugment"]
    assert np.isnan(found.values.mean)
    assert found.values.theirs == pytest.approx(found.values.ours, rel=0.3)
    text = str(found)
    assert "RandAugment can't be told what ours drew" in text
    assert re.search(r"standard deviation: torchvision \d+\.\d\d, visops \d+\.\d\d", text)
    for theirs in (A.GaussNoise(p=1.0), A.RandomRain(p=1.0), A.GaussianBlur((3, 7), p=1.0)):
        assert compare(theirs, ARRAYS[:2]).values.unlike == [type(theirs).__name__]
    # A container's own p: which of its transforms draw can't be told from outside.
    inner = A.Compose([A.Sequential([A.HorizontalFlip(p=0.5)], p=0.5), A.VerticalFlip()])
    assert compare(inner, ARRAYS[:2]).values.unlike == ["Sequential"]
    whole = A.Compose([A.HorizontalFlip(p=0.5), A.VerticalFlip()], p=0.5)
    assert compare(whole, ARRAYS[:2]).values.unlike == ["Compose"]
    choice = v1.RandomChoice([v1.RandomHorizontalFlip(), v1.RandomVerticalFlip()])
    assert compare(choice, PILS[:2]).values.unlike == ["RandomChoice"]
    assert compare(v1.RandomCrop(200, pad_if_needed=True), PILS[:2]).values.unlike == ["RandomCrop"]


def test_what_differs_is_named() -> None:
    steps = [v1.CenterCrop(90), v1.ColorJitter(hue=0.3), v1.ToTensor(), v1.RandomErasing()]
    found = compare(v1.Compose(steps), PILS)
    assert [*found.alone] == ["ColorJitter"]
    assert found.alone["ColorJitter"] > 5
    assert "ColorJitter turns hues about the grey axis" in found.notes[0]
    assert "mean differences of single transforms: ColorJitter" in str(found)


def test_the_user_s_pipeline_is_left_alone() -> None:
    pipeline = v2.Compose([v2.RandomHorizontalFlip(0.3), v2.RandomRotation(9)])
    before = [dict(vars(step)) for step in pipeline.transforms]
    compare(pipeline, TENSORS)
    assert [dict(vars(step)) for step in pipeline.transforms] == before


def test_sizes_that_differ_are_said() -> None:
    photo = ARRAYS[1][:101]  # 101 x 200: to 25.755 x 51, which theirs rounds and ours rounds down
    found = compare(A.LongestMaxSize(51), [photo])
    assert found.values.sizes == ["photo 0: albumentations 3 x 26 x 51, visops 3 x 25 x 51"]
    assert "sizes differ: photo 0: albumentations 3 x 26 x 51" in str(found)
    check(ValueError, "compare: no photo has results of the same size", found.picture)


SOURCE = """
from torchvision.transforms import v2
import torchvision.transforms as T

def build(side):
    return T.Compose([T.Resize(side), T.CenterCrop(side), T.ToTensor()])

train = None
train = v2.Compose([
    v2.RandomResizedCrop(48),
    v2.RandomHorizontalFlip(),
])
"""


def write(folder: Path, text: str) -> tuple[Path, Path]:
    """Return a file with pipelines, and a folder of photos."""
    photos = folder / "photos" / "of été"
    photos.mkdir(parents=True)
    for number, photo in enumerate(PILS[:3]):
        photo.save(photos / f"{number}.{'png' if number else 'JPG'}")
    (folder / "photos" / "notes.txt").write_text("no photo")
    path = folder / "train.py"
    path.write_text(text)
    return path, folder / "photos"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos = write(tmp_path, SOURCE)
    picture = tmp_path / "pairs.png"
    main([str(path), str(photos), "--picture", str(picture), "--count", "2"])
    said = capsys.readouterr().out
    assert "2 photos with the same parameters in both" in said
    assert f"to change in {path}, after line 12:" in said
    assert "    train = visops.transforms.convert(train, seed=0)" in said
    assert Image.open(picture).size == (3 * 48, 2 * 48)
    main([str(path), str(photos), "--name", "build(40)", "--seed", "7"])
    said = capsys.readouterr().out
    assert "3 photos with the same parameters" in said
    assert "    chain = visops.transforms.convert(build(40), seed=7)" in said


def test_the_module_runs(tmp_path: Path) -> None:
    path, photos = write(tmp_path, SOURCE)
    program = "import runpy; runpy.run_module('visops.compare', run_name='__main__')"
    done = fresh.run(program, str(path), str(photos), "--count", "1", check=True)
    assert "time of a decoded photo, one thread: torchvision" in done.stdout


def test_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, photos = write(tmp_path, SOURCE + "other = T.Compose([T.ToTensor()])\n")

    def refused(message: str, *words: Any) -> None:
        with pytest.raises(SystemExit) as stopped:
            main([str(word) for word in words])
        assert stopped.value.code == 1
        assert message in capsys.readouterr().err

    refused("has 2 pipelines: train, other; say which with --name", path, photos)
    refused("notes.txt has no photos (.bmp, ", path, photos / "notes.txt", "--name", "train")
    refused("--count is 0, must be 1 or more", path, photos, "--name", "train", "--count", 0)
    refused("pipeline is 3, must be transforms of single samples", path, photos, "--name", "3")
    refused("No such file", tmp_path / "none.py", photos)
    empty = tmp_path / "empty.py"
    empty.write_text("x = [1, 2]\n")
    refused("has no pipeline; say which with --name", empty, photos)
    check(ValueError, "compare: photos is empty, must have", lambda: compare(v2.Identity(), []))
    assert find_pipeline(path, "other")[2] == 13
