"""Transforms that users write: alone, in batches, and drawn among those of C++."""

import dataclasses
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from jpeg.files import by_pillow
from visops import _native
from visops import transforms as T
from visops.transforms.chain.compile import file_pass

from transforms.samples import (
    SAMPLES,
    SIZE,
    assert_same,
    image,
    in_one_call,
    index_for,
    mixed,
    numbers,
)


class Invert(T.Transform):
    """One that draws nothing and has no parameters."""

    def effects(self) -> T.Effects:
        return T.Effects(colors=1)

    def extend(self, plan: T.Plan, params: Mapping[str, Any]) -> None:
        assert params == {}
        plan.color([-1.0, 1.0])


class Down(T.Transform):
    """One that draws nothing, but whose parameters depend on the canvas."""

    def effects(self) -> T.Effects:
        return T.Effects(moves=True, fill=(0.0,))

    def make_params(self, uniforms: np.ndarray, canvas: T.Canvas) -> dict[str, np.ndarray]:
        return {"rows": np.floor(canvas.height / 2.0) + np.zeros(len(uniforms))}

    def extend(self, plan: T.Plan, params: Mapping[str, Any]) -> None:
        plan.shift(0.0, params["rows"], plan.canvas)


def test_a_missing_method_is_named_when_the_transform_is_made() -> None:
    class Unfinished(T.Transform):
        def effects(self) -> T.Effects:
            return T.Effects()

    with pytest.raises(TypeError, match=r"Unfinished .* extend"):
        Unfinished()  # type: ignore[abstract]


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_transform_without_draws(batch: tuple[int, ...]) -> None:
    image = torch.rand(*batch, 1, 4, 5)
    chain = T.Compose([Invert(), T.RandomHorizontalFlip(1.0), Down()])
    assert len(chain.passes) == 1
    out, params = chain(image, return_params=True)
    # A fused fill is applied before colours: it is inverted, too.
    expected = torch.ones_like(image)
    expected[..., 2:, :] = 1.0 - image.flip(-1)[..., :2, :]
    torch.testing.assert_close(out, expected, rtol=0.0, atol=1e-6)
    assert torch.equal(chain(image, params=params), out)
    assert params.steps[2]["rows"].tolist() == [2.0] * (batch[0] if batch else 1)
    assert torch.equal(Down()(image)[..., 2:, :], image[..., :2, :])


@pytest.mark.parametrize("mirrored", [None, False, True], ids=["plain", "alone", "after a mirror"])
def test_targets_follow_a_transform_without_draws(mirrored: bool | None) -> None:
    """Called by itself, in a chain of its own, and after a transform that draws."""
    assert Down.draws == 0
    call: Any = Down()
    if mirrored is not None:
        call = T.Compose([T.RandomHorizontalFlip(1.0), Down()] if mirrored else [Down()])
    sample = {
        "image": torch.rand(1, 4, 5),
        "boxes": torch.tensor([[0.0, 0.0, 2.0, 1.0], [1.0, 0.0, 5.0, 2.0]]),
        "masks": torch.rand(2, 4, 5) > 0.5,
    }
    found = call(sample)
    maps = {name: sample[name].flip(-1) if mirrored else sample[name] for name in sample}
    for name in ("image", "masks"):
        assert torch.equal(found[name][:, 2:], maps[name][:, :2])
        assert not found[name][:, :2].any()
    boxes = sample["boxes"] + torch.tensor([0.0, 2.0, 0.0, 2.0])
    if mirrored:
        boxes = torch.stack([5 - boxes[:, 2], boxes[:, 1], 5 - boxes[:, 0], boxes[:, 3]], 1)
    assert torch.equal(found["boxes"], boxes)


def test_samples_of_different_sizes_have_their_own_canvas() -> None:
    images = [torch.rand(1, 4, 5), torch.rand(1, 8, 5)]
    params = T.Compose([Down(), T.Resize((6, 6))]).make_params(images)
    assert params.steps[0]["rows"].tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (None, TypeError, "a NoneType, must return a dict of arrays"),
        ({"rows": 3.0}, ValueError, r"'rows' of shape \[\], must have a first dimension of 2"),
        ({"rows": np.ones(3)}, ValueError, r"'rows' of shape \[3\], must have a first dim"),
    ],
)
def test_wrong_parameters_are_refused(
    returned: Any, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Down, "make_params", lambda self, uniforms, canvas: returned)
    with pytest.raises(error, match=rf"^visops\.transforms\.Down: make_params.*{message}"):
        Down()(torch.rand(2, 1, 4, 5))


PAGE = Path(__file__).resolve().parents[2] / "docs" / "own_transforms.md"


def test_letterbox_of_the_guide_is_that_of_the_library() -> None:
    guide: dict[str, Any] = {}
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        exec(code, guide)
    images = [torch.rand(3, *size) for size in ((30, 60), (61, 30), (9, 200), (64, 64))]
    own, theirs = (
        T.Compose([fit]) for fit in (guide["Fit"]((64, 80), 0), T.Letterbox((64, 80), fill=0))
    )
    assert torch.equal(own(images), theirs(images))
    assert torch.equal(own(images[1]), theirs(images[1]))
    assert "Sepia" in guide


def test_the_reference_lists_every_effect() -> None:
    listed = re.findall(r"^    (\w+) : ", T.Effects.__doc__ or "", re.MULTILINE)
    assert listed == [f.name for f in dataclasses.fields(T.Effects)]


class Contrast(T.Transform):
    """Half of the contrast, for any number of channels."""

    def effects(self) -> T.Effects:
        return T.Effects(colors=1)

    def extend(self, plan: T.Plan, params: Mapping[str, Any]) -> None:
        count = plan.canvas.channels
        rows = [0.5 if c == k else 0.0 for c in range(count) for k in range(count + 1)]
        plan.color(rows, weight=0.5)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64])
def test_a_contrast_takes_the_grey_mean_of_any_image(channels: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    levels = torch.randint(0, 256, (channels,)).view(-1, 1, 1).expand(-1, 40, 50)
    image = levels.to(torch.uint8) if dtype == torch.uint8 else levels.double() / 255
    weights = torch.tensor([1.0]) if channels == 1 else torch.tensor([0.2989, 0.587, 0.114])
    mean = (levels[: len(weights), 0, 0] * weights).sum()
    expected = 0.5 * levels + 0.5 * mean
    found = T.Compose([Contrast()])(image).double() * (1 if dtype == torch.uint8 else 255)
    assert (found - expected).abs().max() <= (0.51 if dtype == torch.uint8 else 1e-3)
    video = T.Compose([Contrast()], per_frame=False)(torch.stack([image] * 2))  # in torch
    assert (video[1].double() * (1 if dtype == torch.uint8 else 255) - found).abs().max() <= 1e-6


def test_a_contrast_of_two_channels_is_refused() -> None:
    with pytest.raises(ValueError, match="images have 2 channels, must have 1, 3 or 4 for a contr"):
        T.Compose([Contrast()])(torch.rand(2, 40, 50))


NAMES = ("tensor", "grey", "array", "batch", "list", "all")


class Tint(T.Transform):
    """Colours, written in Python."""

    draws = 2

    def effects(self) -> T.Effects:
        return T.Effects(colors=1)

    def make_params(self, uniforms: Any, canvas: Any) -> dict[str, Any]:
        assert uniforms.flags.writeable
        assert uniforms.shape[1] == self.draws
        return {"apply": uniforms[:, 0] < 0.7, "amount": uniforms[:, 1]}

    def extend(self, plan: T.Plan, params: Any) -> None:
        share = 0.3 * params["apply"] * params["amount"]
        count = plan.channels
        assert plan.dtype == plan.source_dtype  # conversions come later
        rows = ([(1.0 - share) * (i == k) for k in range(count)] + [share] for i in range(count))
        plan.color([number for row in rows for number in row])


class Nudge(T.RandomCrop):
    """Geometry, whose draw is changed in Python."""

    def make_params(self, uniforms: Any, canvas: Any) -> dict[str, Any]:
        params = super().make_params(uniforms, canvas)
        return {**params, "top": np.minimum(params["top"] + 1, canvas.height - self.size[0])}


def written_in_python() -> list[Any]:
    return [
        T.RandomAffine(30, (0.2, 0.2)),
        Tint(),
        T.RandomHorizontalFlip(),
        Nudge((30, 35)),
        T.RandomPosterize(3, p=0.5),
        T.RandomApply([Tint()], 0.5),
        T.ToDtype(torch.float32, scale=True),
        T.Normalize([0.5], [0.3]),
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("record", [False, True])
def test_results_are_those_of_operators(name: str, record: bool) -> None:
    """Its draws too: C++ calls the transform with the numbers that it has one by one."""
    chain = T.Compose(written_in_python(), seed=0)
    sample = SAMPLES[name]()
    for number in range(4):
        options = {"index": index_for(name, number), "return_params": record}
        found, expected = in_one_call(chain, sample, **options)
        if record:
            (found, params), (expected, wanted) = found, expected
            assert_same(params.steps, wanted.steps)
            assert_same(chain(sample, params=params), found)
        assert_same(found, expected)


def frames(call: Callable[[], Any]) -> int:
    """Count the functions of Python that a call calls."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def test_a_transform_in_python_costs_its_own_calls() -> None:
    """The others of its pass are drawn in C++, and give the bits of a pass drawn in Python."""
    sample = SAMPLES["all"]()
    counts = []
    for steps in (mixed(), [*mixed(), Tint()], [Tint(), *mixed(), Tint()]):
        chain = T.Compose(steps, seed=0)
        chain(sample, index=0)
        counts.append(frames(lambda chain=chain: chain(sample, index=1)))  # type: ignore[misc]
    own = counts[1] - counts[0]
    assert own <= 30
    assert counts[2] <= counts[0] + 2 * own


def test_files_stay_in_one_call(tmp_path: Path) -> None:
    """Also in a loader's threads: a transform in Python is called with the interpreter's lock."""
    chain = T.Compose([T.DecodeJpeg(), *written_in_python()], seed=0)
    file = by_pillow(numbers(*SIZE, 3).numpy(), quality=90)
    for index in range(4):
        assert_same(*in_one_call(chain, (file, 3), index=index))
    loader = T.Loader([(file, 3)] * 40, chain, 8, threads=4)
    assert "without the lock" in repr(loader)
    images = torch.cat([images for images, _ in loader])
    assert_same(images, torch.stack([chain((file, 3), index=index)[0] for index in range(40)]))

    paths = [tmp_path / name for name in ("outer.jpg", "inner.jpg")]
    for path, quality in zip(paths, (95, 60), strict=True):  # the inner one is shorter
        path.write_bytes(
            by_pillow(torch.randint(0, 256, (40, 60, 3)).numpy().astype(np.uint8), quality=quality)
        )
    inner = T.Compose([T.DecodeJpeg(), T.Resize((8, 8))])
    natives: Any = [file_pass(inner)]

    class Reading(Tint):
        """Loads another file, in the same thread, while the first one is open."""

        def make_params(self, uniforms: Any, canvas: Any) -> dict[str, Any]:
            for images in T.Loader([str(paths[1])], inner, 1, threads=1):
                assert images.shape == (1, 3, 8, 8)
            assert _native.FilePass.load(
                natives, os.fsencode(paths[1]), True, [0], 0, 0, [None], memory
            )
            return super().make_params(uniforms, canvas)

    def memory(number: int, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype)

    for steps in ([Tint()], [Reading()]):
        reading = T.Compose([T.DecodeJpeg(), *steps], seed=0)
        (images,) = T.Loader([str(paths[0])], reading, 1, threads=1)
        assert_same(images[0], reading(paths[0].read_bytes(), index=0))

    class Broken(Tint):
        def make_params(self, uniforms: Any, canvas: Any) -> dict[str, Any]:
            raise KeyError("no tint")

    broken = T.Compose([T.DecodeJpeg(), Broken()], seed=0)
    for call in (lambda: broken(file), lambda: list(T.Loader([file], broken, 1, threads=1))):
        with pytest.raises(KeyError, match="no tint"):
            call()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", ["tensor", "batch", "all", "list"])
def test_a_pass_with_a_transform_in_python_is_drawn_as_one_by_one(name: str, exact: bool) -> None:
    def called() -> Any:
        chain = T.Compose(written_in_python(), seed=0, exact=exact)
        return chain(SAMPLES[name](), index=index_for(name, 2))

    found = called()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("visops.transforms.chain.compile._changes_constants", lambda effects: True)
        assert_same(called(), found)


def test_effects_must_say_what_is_the_same_for_all() -> None:
    class Silent(Tint):
        def extend(self, plan: T.Plan, params: Any) -> None:
            plan.normalize([0.5], [0.5])

    chain = T.Compose([T.ToDtype(torch.float32, scale=True), Silent()])
    message = "transforms.Silent: extend called plan.normalize, convert or erase, must say so in"
    with pytest.raises(TypeError, match=message):
        chain(image())


def test_errors_in_transforms_in_python_are_theirs() -> None:
    class Failing(Tint):
        def make_params(self, uniforms: Any, canvas: Any) -> dict[str, Any]:
            raise KeyError("mine")

    chain = T.Compose([T.RandomHorizontalFlip(), Failing()])
    for sample in (image(), numbers(3, 3, *SIZE)):
        with pytest.raises(KeyError, match="mine"):
            chain(sample)
