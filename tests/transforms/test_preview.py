"""preview(): what it draws, and where."""

import sys
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check
from visops import transforms
from visops.transforms import preview
from visops.transforms.recipes.preview import describe

pytest.importorskip("matplotlib")

IMAGE = (
    torch.arange(3 * 40 * 60, dtype=torch.int64).remainder(251).to(torch.uint8).reshape(3, 40, 60)
)
SAMPLE: dict[str, Any] = {
    "image": IMAGE,
    "mask": torch.arange(40 * 60).reshape(40, 60) // 600,
    "boxes": torch.tensor([[10.0, 5, 50, 30], [0, 0, 20, 10]]),
    "labels": ["a", "b"],
    "keypoints": torch.tensor([[[12.0, 7], [500, 3]], [[1, 2], [3, 4]]]),
}


def pictures(figure: Any) -> list[np.ndarray]:
    return [np.asarray(axes.get_images()[0].get_array()) for axes in figure.axes]


def captions(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def rectangle(patch: Any) -> np.ndarray:
    return patch.get_bbox().extents  # type: ignore[no-any-return]


def test_grid() -> None:
    from matplotlib.figure import Figure

    chain = transforms.Compose([transforms.RandomRotation(30)], seed=4)
    for count in (1, 2, 5):
        figure = preview(chain, SAMPLE, count)
        assert type(figure) is Figure
        assert len(figure.axes) == count + 1
        boxes = [axes.get_position() for axes in figure.axes]
        for box in boxes:
            assert box.x0 >= 0
            assert box.y0 >= -1e-9
            assert box.x1 <= 1
            assert box.y1 <= 1
        for i, box in enumerate(boxes):
            assert not any(box.overlaps(other) for other in boxes[:i])
    assert len(preview(chain, SAMPLE).axes) == 17
    figure.canvas.draw()


def test_results_are_those_of_the_chain() -> None:
    chain = transforms.Compose(
        [transforms.RandomRotation(30), transforms.RandomHorizontalFlip()], seed=4, boxes="clamp"
    )
    figure = preview(chain, SAMPLE, 3)
    shown = pictures(figure)
    np.testing.assert_allclose(shown[0], IMAGE.permute(1, 2, 0).numpy() / 255)
    for index in range(3):
        result, params = chain(SAMPLE, index=index, return_params=True)
        np.testing.assert_allclose(shown[index + 1], result["image"].permute(1, 2, 0) / 255)
        angle = f"{params.steps[0]['angle'][0]:.2f}".rstrip("0").rstrip(".").replace("-", "−")
        assert f"Rotation: angle {angle}" in captions(figure)[index + 1]
        flipped = bool(params.steps[1]["apply"][0])
        assert ("HorizontalFlip" in captions(figure)[index + 1]) == flipped
        axes = figure.axes[index + 1]
        rectangles = [rectangle(patch) for patch in axes.patches]
        np.testing.assert_allclose(rectangles, result["boxes"] - 0.5, atol=1e-5)
        assert [text.get_text() for text in axes.texts] == ["a", "b"]
        points = np.asarray(axes.collections[0].get_offsets())
        flags = result["keypoints_visible"]
        np.testing.assert_allclose(points, result["keypoints"][flags], atol=1e-5)
        # matplotlib shows what is within the axes' limits: the whole picture.
        assert axes.get_xlim() == (-0.5, 59.5)
        assert axes.get_ylim() == (39.5, -0.5)


def test_masks_are_tinted() -> None:
    chain = transforms.Compose([transforms.Pad(4)], mask_fill=255)
    figure = preview(chain, SAMPLE, 1)
    layers = [np.asarray(image.get_array()) for image in figure.axes[1].get_images()[1:]]
    result = chain(SAMPLE)["mask"].numpy()
    assert len(layers) == 4  # classes 1 to 3, and the hatched fill; class 0 stays as it is
    for number, layer in enumerate(layers[:3], start=1):
        np.testing.assert_array_equal(layer[..., 3] > 0, result == number)
    hatched = layers[3][..., 3] > 0
    assert hatched.any()
    assert not hatched[result != 255].any()
    many = {"image": IMAGE, "masks": torch.rand(3, 40, 60) > 0.5, "boxes": torch.zeros(3, 4)}
    layers = [np.asarray(i.get_array()) for i in preview(chain, many, 1).axes[0].get_images()[1:]]
    for layer, mask in zip(layers, many["masks"], strict=True):
        np.testing.assert_array_equal(layer[..., 3] > 0, mask)
    soft = {"image": IMAGE, "mask": torch.rand(40, 60)}
    layers = [np.asarray(i.get_array()) for i in preview(chain, soft, 1).axes[0].get_images()[1:]]
    np.testing.assert_allclose(
        layers[0][..., 3] / layers[0][..., 3].max(), soft["mask"] / soft["mask"].max()
    )


@pytest.mark.parametrize("scale", [True, False])
def test_normalisation_is_undone(scale: bool) -> None:
    unit = 1.0 if scale else 255.0
    chain = [
        transforms.ToDtype(torch.float32, scale=scale),
        transforms.Normalize([0.4 * unit, 0.5 * unit, 0.6 * unit], [0.2 * unit] * 3),
    ]
    shown = pictures(preview(transforms.Compose(chain), IMAGE, 1))
    np.testing.assert_allclose(shown[1], IMAGE.permute(1, 2, 0) / 255, atol=1e-5)


def test_kinds_of_samples() -> None:
    flip = transforms.RandomHorizontalFlip()
    grey = torch.rand(1, 40, 60)
    for sample in (IMAGE, IMAGE.permute(1, 2, 0).numpy(), grey, (IMAGE, 3), torch.rand(4, 40, 60)):
        assert all(picture.shape == (40, 60, 3) for picture in pictures(preview(flip, sample, 2)))
    tv = pytest.importorskip("torchvision.tv_tensors")
    typed = {
        "video": tv.Video(torch.rand(5, 3, 40, 60)),
        "boxes": tv.BoundingBoxes([[1, 2, 3, 4]], format="XYWH", canvas_size=(40, 60)),
        "points": tv.KeyPoints(torch.rand(2, 2), canvas_size=(40, 60)),
    }
    figure = preview(flip, typed, 2)
    assert rectangle(figure.axes[0].patches[0]).tolist() == [0.5, 1.5, 3.5, 5.5]
    half = preview(transforms.Compose([flip], keypoint_convention="half_pixel"), typed, 1)
    difference = np.subtract(
        figure.axes[0].collections[0].get_offsets(), half.axes[0].collections[0].get_offsets()
    )
    np.testing.assert_allclose(difference, 0.5)
    column = {"image": IMAGE, "keypoints": np.array([[3.0, 4, 0], [5, 6, 2]])}
    offsets = preview(flip, column, 1).axes[0].collections[0].get_offsets()
    assert np.asarray(offsets).tolist() == [[5, 6]]


def test_draws_are_repeatable_and_leave_the_global_generator_alone() -> None:
    state = torch.get_rng_state()
    chain = transforms.Compose([transforms.RandomAffine(30, (0.1, 0.1))])
    first, second = (pictures(preview(chain, IMAGE, 3)) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[1], first[2])
    assert torch.equal(torch.get_rng_state(), state)


def test_captions() -> None:
    everything = transforms.Compose(
        [
            transforms.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10),
            transforms.RandomPerspective(p=1.0),
            transforms.ColorJitter(0.3),
            transforms.RandAugment(),
            transforms.RandomGrayscale(0.0),
            transforms.Resize((40, 60)),
            transforms.ToDtype(torch.float32),
            torch.nn.Identity(),
        ],
        seed=0,
    )
    _, params = everything(IMAGE, index=0, return_params=True)
    pairs = zip(everything.transforms, params.steps, strict=True)
    lines = [describe(transform, step) for transform, step in pairs]
    assert lines[0].startswith("Affine: angle ")
    assert "translate (" in lines[0]
    assert lines[1].startswith("Perspective: (")
    assert lines[1].count("(") == 4
    assert lines[2].startswith("ColorJitter: brightness ")
    assert lines[3].startswith("RandAugment: ")
    assert lines[4:] == ["", "", "", "Identity"]


def test_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    flip = transforms.RandomHorizontalFlip()
    for bad in (0, -1, 2.0, True):
        check(
            ValueError,
            f"transforms.preview: n is {bad!r}, must be a whole number >= 1",
            lambda bad=bad: preview(flip, IMAGE, bad),  # type: ignore[misc]
        )
    check(
        ValueError,
        "transforms.preview: sample is a batch, must be a single sample",
        lambda: preview(flip, IMAGE[None]),
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    check(
        ImportError,
        "transforms.preview: needs matplotlib, which can't be imported",
        lambda: preview(flip, IMAGE),
    )
