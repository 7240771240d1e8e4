"""Pipelines of torchvision and albumentations as chains."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from albumentations.pytorch import ToTensorV2
from bad_input import check
from torch import nn
from visops import transforms as T
from visops.transforms.recipes import from_albumentations

v2 = pytest.importorskip("torchvision.transforms.v2")
v1 = pytest.importorskip("torchvision.transforms")
A = pytest.importorskip("albumentations")

PHOTO = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)

# Theirs, and ours with the same arguments.
SAME: dict[str, Any] = {
    "flip": lambda M: M.RandomHorizontalFlip(0.3),
    "affine": lambda M: M.RandomAffine(
        10, (0.1, 0.2), (0.5, 2), 5, M.InterpolationMode.NEAREST, fill=3, center=(9, 8)
    ),
    "rotation": lambda M: M.RandomRotation(30, M.InterpolationMode.BILINEAR, expand=True),
    "jitter": lambda M: M.ColorJitter(0.4, (0.1, 2)),
    "resized": lambda M: M.RandomResizedCrop(20, (0.2, 1)),
    "resize": lambda M: M.Resize(20, max_size=50),
    "crop": lambda M: M.RandomCrop(50, 4, pad_if_needed=True, fill=7, padding_mode="constant"),
    "pad": lambda M: M.Pad((1, 2), 5, "reflect"),
    "perspective": lambda M: M.RandomPerspective(0.7, 0.9),
    "erasing": lambda M: M.RandomErasing(1.0, value=9),
    "zoom": lambda M: M.RandomZoomOut(4, (1, 2)),
    "jitters": lambda M: M.ScaleJitter((50, 50)),
    "shortest": lambda M: M.RandomShortestSize([20, 30], 70),
    "grey": lambda M: M.RandomGrayscale(0.4),
    "dtype": lambda M: M.ToDtype(torch.float32, scale=True),
    "tensor": lambda M: M.ToTensor(),
    "first version": lambda M: (v1 if M is v2 else T).RandomRotation(
        10, v2.InterpolationMode.NEAREST
    ),
    "apply": lambda M: M.RandomApply([M.Pad(1), M.RandomHorizontalFlip()], 0.4),
    "choice": lambda M: M.RandomChoice([M.Pad(1), M.Pad(2)], p=[1, 3]),
    "order": lambda M: M.RandomOrder([M.Pad(1), M.CenterCrop(20)]),
}


@pytest.mark.filterwarnings("ignore:The transform `ToTensor")
@pytest.mark.parametrize("name", SAME)
def test_what_has_the_same_name_has_the_same_arguments(name: str) -> None:
    theirs, ours = (SAME[name](module) for module in (v2, T))
    expected = T.Compose([ours], seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = T.convert(v2.Compose([theirs]), seed=0)
    assert repr(found) == repr(expected)
    assert all(torch.equal(found(PHOTO, index=i), expected(PHOTO, index=i)) for i in range(4))


def test_whole_pipelines() -> None:
    steps = [v2.RandomResizedCrop(20), v2.Compose([v2.RandomHorizontalFlip()]), v2.ToImage()]
    steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.5])]
    for pipeline in (v2.Compose(steps), nn.Sequential(*steps), steps):
        chain = T.convert(pipeline, seed=3)
        assert len(chain.passes) == 1
        assert chain(PHOTO, index=0).shape == (3, 20, 20)


def test_what_does_not_map_is_said() -> None:
    with pytest.warns(UserWarning, match="RGB stays torchvision's and runs on its own"):
        chain = T.convert(v2.Compose([v2.RGB(), v2.Pad(1)]), seed=0)
    assert chain(PHOTO, index=0).shape == (3, 42, 62)
    with pytest.warns(UserWarning, match="neg runs as it is, on each sample's image"):
        T.convert([torch.neg])
    message = "transforms.convert: FiveCrop can't be in a chain of single samples; use a chain for"
    check(TypeError, message, lambda: T.convert(v2.Compose([v2.FiveCrop(3)])))
    message = "transforms.convert: pipeline is [], must be a pipeline of at least one transform"
    check(ValueError, message, lambda: T.convert([]))
    check(TypeError, "transforms.convert: pipeline is 3, must be", lambda: T.convert([3]))


def test_albumentations() -> None:
    pipeline = A.Compose(
        [
            A.RandomResizedCrop((20, 30), scale=(0.3, 1.0), ratio=(0.5, 2.0)),
            A.HorizontalFlip(p=0.3),
            A.Rotate((-20, 20), p=0.5),
            A.ColorJitter(0.2, 0.3, 0.4, 0.0, p=0.8),
            A.OneOf([A.Transpose(), A.RandomCrop(10, 12)], p=1.0),
            A.Normalize((0.4, 0.5, 0.6), (0.1, 0.2, 0.3)),
            ToTensorV2(),
        ]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = T.convert(pipeline, seed=0)
    image = chain(PHOTO, index=0)
    assert (image.shape, image.dtype) == ((3, 10, 12), torch.float32)
    flip = T.convert(A.Compose([A.HorizontalFlip(p=1.0), A.Normalize((0.4,) * 3, (0.2,) * 3)]))
    expected = A.Compose([A.HorizontalFlip(p=1.0), A.Normalize((0.4,) * 3, (0.2,) * 3)])(
        image=PHOTO
    )
    np.testing.assert_allclose(flip(PHOTO).movedim(0, -1), expected["image"], atol=1e-5)
    with pytest.warns(UserWarning, match="RandomFog stays albumentations' and runs on its own, on"):
        chain = T.convert(A.Compose([A.RandomFog(p=1.0)]), seed=0)
    assert chain(PHOTO, index=0).shape == (3, 40, 60)
    points = A.KeypointParams(format="xy")
    with pytest.warns(UserWarning, match="what keypoints are is left out"):
        T.convert(A.Compose([A.HorizontalFlip()], keypoint_params=points))


ALIKE: dict[str, Any] = {
    "GridDistortion": lambda A: A.GridDistortion(4, (-0.2, 0.1), p=0.4),
    "OpticalDistortion": lambda A: A.OpticalDistortion(0.2, mode="fisheye", border_mode=1, p=0.3),
    "ThinPlateSpline": lambda A: A.ThinPlateSpline((0.1, 0.3), 3, p=1),
    "MotionBlur": lambda A: A.MotionBlur((5, 7), False, p=0.2),
    "MedianBlur": lambda A: A.MedianBlur((3, 5), p=0.2),
    "Blur": lambda A: A.Blur((3, 5), p=0.2),
    "CLAHE": lambda A: A.CLAHE((1, 3), (4, 5), p=0.2),
    "Downscale": lambda A: A.Downscale((0.3, 0.5), p=0.2),
    "Emboss": lambda A: A.Emboss((0.1, 0.3), p=0.2),
    "Sharpen": lambda A: A.Sharpen((0.1, 0.3), p=0.2),
    "UnsharpMask": lambda A: A.UnsharpMask((3, 5), p=0.2),
    "ShotNoise": lambda A: A.ShotNoise((0.1, 0.2), p=0.2),
    "SaltAndPepper": lambda A: A.SaltAndPepper((0.1, 0.2), p=0.2),
    "ChannelDropout": lambda A: A.ChannelDropout((1, 2), 5, p=0.2),
    "CoarseDropout": lambda A: A.CoarseDropout((2, 3), (3, 5), (4, 6), 7, p=0.2),
    "GridDropout": lambda A: A.GridDropout(0.3, True, (4, 6), p=0.2),
}


@pytest.mark.parametrize("name", ALIKE)
def test_albumentations_names_with_the_same_arguments(name: str) -> None:
    theirs = ALIKE[name](pytest.importorskip("albumentations"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(ThinPlateSpline brings|CLAHE takes)")
        ours = T.convert(theirs).transforms[0]
    assert type(ours).__name__ == name
    assert ours.p == theirs.p
    for argument in ("distort_limit", "scale_range", "blur_limit", "clip_limit", "alpha", "amount"):
        if hasattr(ours, argument):
            assert tuple(getattr(ours, argument)) == tuple(getattr(theirs, argument)), argument
    if name == "OpticalDistortion":
        assert (ours.mode, ours.padding_mode) == ("fisheye", "replicate")
    if name == "CoarseDropout":
        assert (ours.num_holes_range, ours.hole_width_range, ours.fill) == ((2, 3), (4, 6), 7)
    assert T.Compose([ours])(PHOTO).shape == (3, 40, 60)


SYMMETRIES = ("D4", "RandomRotate90", "Transpose")
COLOURS = ("RGBShift", "RandomBrightnessContrast", "RandomGamma")


@pytest.mark.parametrize("name", [*ALIKE, *SYMMETRIES, *COLOURS])
def test_defaults_are_albumentations(name: str) -> None:
    theirs = getattr(pytest.importorskip("albumentations"), name)()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*(Spline b|Distortion b|CLAHE t)")
        converted = T.convert(theirs, mask_fill=255).transforms[0]
    own = repr(getattr(T, name)())
    assert repr(converted) == re.sub(r"fill=0\b(?!\.)", "fill=0.0", own)


def test_what_only_albumentations_does_stays_there() -> None:
    for theirs in (
        A.CoarseDropout(fill="inpaint_ns", p=1),
        A.CoarseDropout(fill=(1, 2, 3), p=1),
        A.GridDropout(fill_mask=0, p=1),
        A.Downscale(interpolation_pair={"downscale": 1, "upscale": 1}, p=1),
        A.Sharpen(method="gaussian", p=1),
        A.Rotate((30, 30), border_mode=4),
        A.Rotate((30, 30), crop_border=True),
        A.Resize(20, 30, interpolation=4),
        A.GridDistortion(interpolation=4),
        A.ThinPlateSpline(mask_interpolation=1),
        A.SmallestMaxSize([20, 30]),
        A.SmallestMaxSize(max_size_hw=(20, 30)),
        A.RandomCrop(50, 50, pad_if_needed=True),
        A.ToGray(method="max"),
        A.ImageCompression("webp"),
        A.Normalize(normalization="image"),
        A.RandomBrightnessContrast(brightness_by_max=False),
        A.Affine(shear=5),
        A.Affine(scale=(0.5, 2)),  # each axis draws for itself
        A.Affine(translate_px=3),
        A.Affine(translate_percent=(0, 0.1)),
        A.Affine(fit_output=True),
        A.Affine(border_mode=4),
        A.AutoContrast(cutoff=3, method="pil"),
        A.AutoContrast(),
        A.ElasticTransform(),
        A.ElasticTransform(noise_distribution="uniform", same_dxdy=True),
        A.Equalize(by_channels=False),
        A.Erasing(fill="random"),
        A.FromFloat("uint16"),
        A.GaussNoise(mean_range=(0.1, 0.1)),
        A.GaussianBlur(sigma_limit=(0.0, 1.0)),
        A.LongestMaxSize([20, 30]),
        A.MultiplicativeNoise(per_channel=True),
        A.Posterize([(1, 2), (3, 4), (5, 6)]),
        A.Solarize((0.2, 0.5)),
        A.SomeOf([A.HorizontalFlip(), A.VerticalFlip(), A.Transpose()], n=2),
        A.RandomOrder([A.HorizontalFlip(), A.VerticalFlip(), A.Transpose()], n=2),
        *(A.Crop(0, 0, 9, 9, pad_if_needed=True), A.CropAndPad(px=[[1, 2, 3]] * 4)),
        *(A.CropAndPad(px=3, fill=(0, 255)), A.Perspective(border_mode=4)),
        *(A.SafeRotate(border_mode=4), A.PixelDropout(per_channel=True)),
        *(A.PixelDropout(drop_value=None), A.XYMasking(1, 1, 3, 3, fill="inpaint_ns")),
        *(A.AdditiveNoise("laplace"), A.AdditiveNoise("gaussian", "shared")),
        *(A.RandomSizedCrop((9, 9), (9, 9), interpolation=4), A.RandomSnow(method="texture")),
        A.ChromaticAberration(interpolation=4),
    ):
        with pytest.warns(UserWarning, match="stays albumentations'"):
            T.convert(theirs)


def test_saved_pipelines(tmp_path: Path) -> None:
    theirs = A.Compose([A.RandomCrop(20, 30), A.HorizontalFlip(p=0.3)])
    expected = repr(T.convert(theirs, seed=0))
    assert repr(T.convert(A.to_dict(theirs), seed=0)) == expected
    for name, form in (("chain.json", "json"), ("chain.yaml", "yaml")):
        A.save(theirs, tmp_path / name, data_format=form)
        assert repr(T.convert(tmp_path / name, seed=0)) == expected
        assert repr(T.convert(str(tmp_path / name), seed=0)) == expected
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        T.convert("none.json")


def test_what_is_near_is_said() -> None:
    near = r"PiecewiseAffine stays .*, and refuses masks.* \(ElasticTransform is near\)"
    with pytest.warns(UserWarning, match=near):
        T.convert(A.PiecewiseAffine())
    for text in from_albumentations._NEAR.values():
        assert hasattr(T, text.partition("(")[0]), text


def test_compression_keeps_red_red() -> None:
    theirs = A.ImageCompression("jpeg", (30, 30), p=1)
    with pytest.warns(UserWarning, match="ImageCompression codes red as blue"):
        ours = T.convert(theirs)
    swapped = theirs(image=np.ascontiguousarray(PHOTO[..., ::-1]))["image"][..., ::-1]
    assert np.array_equal(ours(PHOTO).movedim(0, -1), swapped)


# What these need; others are made without arguments.
NEEDED: dict[str, tuple[Any, ...]] = {
    "AtLeastOneBBoxRandomCrop": (8, 8),
    "CenterCrop": (8, 8),
    "CropAndPad": (3,),
    "CropNonEmptyMaskIfExists": (8, 8),
    "LongestMaxSize": (50,),
    "RandomCrop": (8, 8),
    "RandomResizedCrop": ((9, 9),),
    "RandomSizedBBoxSafeCrop": (8, 8),
    "RandomSizedCrop": ((9, 9), (9, 9)),
    "Resize": (9, 9),
    "SmallestMaxSize": (50,),
}


@pytest.mark.filterwarnings("ignore")
def test_a_probability_of_0_changes_nothing() -> None:
    """In every transform that is converted: `p` is handed on, and nothing else fails."""
    converted = []
    for name, cls in sorted(vars(A).items()):
        if not (isinstance(cls, type) and issubclass(cls, A.BasicTransform)):
            continue
        try:
            theirs = cls(*NEEDED.get(name, ()), p=0.0)
        except (NotImplementedError, TypeError, ValueError):
            continue  # has arguments of its own
        chain = T.convert(theirs, seed=0)
        if type(chain.transforms[0]).__module__.startswith("visops"):
            converted.append(name)
            for index in range(3):
                unchanged = np.array_equal(chain(PHOTO, index=index).movedim(0, -1), PHOTO)
                assert unchanged, name
    assert len(converted) >= 86


def test_what_differs_by_rule_is_said() -> None:
    hue = "turns hues about the grey axis, where"
    for theirs, note in (
        (v2.ColorJitter(hue=0.1), f"ColorJitter {hue} torchvision shifts the H of HSV"),
        (v1.ColorJitter(hue=0.1), f"ColorJitter {hue} torchvision"),
        (v2.RandomPhotometricDistort(p=0.7), f"RandomPhotometricDistort {hue} torchvision"),
        (A.ColorJitter(hue=0.1), f"ColorJitter {hue} albumentations"),
        (A.CenterCrop(20, 30), "CenterCrop rounds halves to even"),
        (A.OpticalDistortion(), "OpticalDistortion bends about the middle; theirs also shifts"),
        (A.ThinPlateSpline(), "ThinPlateSpline brings its points where they are drawn"),
        (A.Perspective(), "Perspective shows all of its quadrangle; theirs is enlarged once more"),
        (A.SafeRotate(), "SafeRotate turns images about their middle; theirs about half a pixel"),
        (A.TimeMasking(), "TimeMasking leaves masks alone"),
        (A.FancyPCA(), "FancyPCA moves along principal axes"),
        (A.PlasmaBrightnessContrast(), "PlasmaBrightnessContrast takes negative amounts as they"),
        (A.RandomShadow(), "RandomShadow leaves out pixels that its edges only touch"),
        (A.ZoomBlur(), "ZoomBlur enlarges by parts of pixels"),
    ):
        with pytest.warns(UserWarning, match=note):
            T.convert(theirs)


MASK = PHOTO[..., 0] // 64


@pytest.mark.parametrize(
    "make",
    [
        lambda A: A.Resize(20, 30),
        lambda A: A.RandomResizedCrop((20, 30), scale=(1, 1), ratio=(1.5, 1.5)),
        lambda A: A.Rotate((30, 30), p=1),
        lambda A: A.Rotate((30, 30), fill=(10, 20, 30), fill_mask=7, p=1),
        lambda A: A.OpticalDistortion((0.3, 0.3), mode="fisheye", fill_mask=3, p=1),
        lambda A: A.OpticalDistortion((-0.4, -0.4), mode="fisheye", border_mode=4, p=1),
        lambda A: A.Transpose(p=1),
        lambda A: A.RandomGamma((150, 150), p=1),
        lambda A: A.RandomBrightnessContrast((0.1, 0.1), (0.2, 0.2), p=1),
        lambda A: A.RGBShift((5, 5), (9, 9), (-4, -4), p=1),
        lambda A: A.GridDropout(holes_number_xy=(2, 5), random_offset=False, p=1),
        lambda A: A.OneOf([A.NoOp(), A.NoOp()], p=1),
        lambda A: A.Affine(rotate=(25, 25), scale=(1.3, 1.3), p=1),
        lambda A: A.Affine(scale=(0.6, 0.6), fill=(1, 2, 3), fill_mask=5, p=1),
        lambda A: A.ShiftScaleRotate((0, 0), (0.2, 0.2), (-70, -70), p=1),
        lambda A: A.Pad((3, 5), fill=9, fill_mask=2, p=1),
        lambda A: A.Pad((1, 2, 3, 4), border_mode=4, p=1),
        lambda A: A.InvertImg(p=1),
        lambda A: A.ToSepia(p=1),
        lambda A: A.Posterize(3, p=1),
        lambda A: A.AutoContrast(method="pil", p=1),
        lambda A: A.TimeReverse(p=1),
        lambda A: A.MultiplicativeNoise((1.2, 1.2), p=1),
        lambda A: A.GaussianBlur(sigma_limit=(2, 2), p=1),
        lambda A: A.GaussianBlur((4, 5), (0.7, 0.7), p=1),
    ],
)
def test_images_and_masks_are_albumentations(make: Any) -> None:
    theirs = make(pytest.importorskip("albumentations"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chain = T.convert(theirs, seed=0)
    expected = theirs(image=PHOTO, mask=MASK)
    found = chain({"image": PHOTO, "mask": MASK}, index=0)
    distance = np.abs(found["image"].movedim(0, -1).numpy().astype(int) - expected["image"])
    assert distance.max() <= 1
    if expected["mask"].shape == PHOTO.shape[:2]:  # else the nearest pixel is another
        wrong = np.asarray(found["mask"]) != expected["mask"]
        assert wrong.mean() < 0.002  # where a pixel lies halfway between two


DRAWS = 60


def drawn(theirs: Any, note: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Return what both make of 60 copies of a photo, [60, H, W, C]."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        chain = T.convert(theirs, seed=0)
    assert (note in str(said[0].message)) if note else not said
    found = chain(np.stack([PHOTO] * DRAWS), index=range(DRAWS)).movedim(1, -1).numpy()
    theirs.set_random_seed(0)
    return found, np.stack([theirs(image=PHOTO)["image"] for _ in range(DRAWS)])


def test_what_is_drawn_is_drawn_from_the_same_range() -> None:
    """By the mean and the spread of what 60 draws change."""
    for theirs, within in (
        (A.GaussNoise((0.1, 0.2), p=1.0), 0.1),
        (A.GaussianBlur((3, 9), (0.5, 3.0), p=1.0), 0.1),
        (A.MultiplicativeNoise((0.5, 1.5), p=1.0), 0.2),
        (A.ElasticTransform(300, 5, noise_distribution="uniform", p=1.0), 0.1),
        (A.ShiftScaleRotate((-0.1, 0.1), (0.2, 0.2), (-40, 40), p=1.0), 0.1),
        (A.Affine(keep_ratio=True, scale=(0.5, 2), rotate=(-9, 3), p=1.0), 0.1),
    ):
        found, expected = (
            np.abs(own.astype(float) - PHOTO).mean((1, 2, 3)) for own in drawn(theirs)
        )
        assert found.mean() == pytest.approx(expected.mean(), rel=within), theirs
        assert found.std() == pytest.approx(expected.std(), rel=0.5), theirs


def test_orders_and_symmetries_are_theirs() -> None:
    for theirs in (A.ChannelShuffle(p=1.0), A.SquareSymmetry(p=1.0), A.Posterize((1, 3), p=1.0)):
        image = PHOTO[:40, :40]
        chain = T.convert(theirs, seed=0)
        ours = {chain(image, index=i).movedim(0, -1).numpy().tobytes() for i in range(80)}
        assert ours == {theirs(image=image)["image"].tobytes() for _ in range(80)}
        assert len(ours) in (6, 8, 3)


def test_floats_and_back() -> None:
    for theirs in (A.ToFloat(), A.ToFloat(max_value=100.0)):
        expected = theirs(image=PHOTO)["image"]
        np.testing.assert_allclose(T.convert(theirs)(PHOTO).movedim(0, -1), expected, rtol=1e-6)
    floats = PHOTO.astype(np.float32) / 255
    assert np.array_equal(T.convert(A.FromFloat())(floats).movedim(0, -1), PHOTO)


def test_rules_that_differ_are_said() -> None:
    found, expected = drawn(A.LongestMaxSize(30), "LongestMaxSize rounds the shorter side down")
    assert found.shape == expected.shape == (DRAWS, 20, 30, 3)
    found, expected = drawn(A.Erasing((0.1, 0.2), (0.9, 1.1), 7, p=1.0), "Erasing draws its rect")
    shares = [(own == 7).all(-1).mean((1, 2)) for own in (found, expected)]
    assert shares[0].mean() == pytest.approx(shares[1].mean(), rel=0.1)
    drawn(A.ShiftScaleRotate(p=1.0), "ShiftScaleRotate scales both axes by one factor")
    found, expected = drawn(A.Solarize((0.5, 0.5), p=1.0), "Solarize has the threshold of uint8")
    assert np.array_equal(found, expected)
    for theirs, most in ((A.Equalize("pil", p=1.0), 2), (A.Equalize(p=1.0), 12)):
        found, expected = drawn(theirs, "follows Pillow's rule")
        assert np.abs(found.astype(int) - expected).max() <= most


def test_a_chain_s_mask_fill_replaces_theirs() -> None:
    chain = T.convert(A.Rotate((45, 45), p=1), mask_fill=255)
    assert chain({"image": PHOTO, "mask": MASK})["mask"][0, 0] == 255


def test_what_one_of_chooses_is_applied() -> None:
    """Its transforms' probabilities are weights, and of those within it decide for themselves."""

    def changed(pipeline: Any) -> int:
        chain = T.convert(pipeline, seed=0)
        batch = np.stack([PHOTO] * 60)
        out = chain(batch, index=range(60))
        return int((out != torch.from_numpy(batch).movedim(-1, 1)).flatten(1).any(1).sum())

    flips = [A.HorizontalFlip(p=0.1), A.VerticalFlip(p=0.1)]
    assert changed(A.OneOf(flips, p=1.0)) == 60
    assert changed(A.OneOf([A.Sequential(flips, p=0.1)], p=1.0)) < 30
    assert changed(A.SomeOf(flips, n=1)) < 20
    both = A.RandomOrder([A.HorizontalFlip(p=1.0), A.VerticalFlip(p=1.0)], n=1)
    turned = np.ascontiguousarray(PHOTO[::-1, ::-1])
    chain = T.convert(both, seed=0)
    assert not any(np.array_equal(chain(PHOTO, index=i).movedim(0, -1), turned) for i in range(20))


def test_other_filters_are_said() -> None:
    with pytest.warns(UserWarning, match="Resize averages with another filter than OpenCV's"):
        T.convert(A.Resize(20, 30, interpolation=3))
    with pytest.warns(UserWarning, match="Resize takes the pixels of OpenCV's INTER_NEAREST_EXACT"):
        T.convert(A.Resize(20, 30, interpolation=0))
    with pytest.warns(UserWarning, match="SmallestMaxSize rounds the longer side down"):
        T.convert(A.SmallestMaxSize(25))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32], ids=str)
@pytest.mark.parametrize("white", [255.0, 1.0, 65535.0])
def test_normalize_divides_by_what_it_is_told(dtype: Any, white: float) -> None:
    image = np.random.default_rng(0).uniform(0, 255, (9, 11, 3)).astype(dtype)
    theirs = A.Normalize((0.4, 0.5, 0.6), (0.1, 0.2, 0.3), max_pixel_value=white)
    expected = theirs(image=image)["image"].transpose(2, 0, 1)
    found = T.convert([theirs])(image)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("nothing", [A.NoOp(), ToTensorV2()])
def test_what_does_nothing_is_a_chain(nothing: Any) -> None:
    image = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    for pipeline in (nothing, [nothing], A.Compose([nothing])):
        assert torch.equal(T.convert(pipeline)(image), torch.from_numpy(image).movedim(-1, 0))
    with pytest.raises(ValueError, match="must be a pipeline of at least one transform"):
        T.convert([])


@pytest.mark.parametrize("form", ["coco", "pascal_voc", "yolo", "albumentations"])
def test_boxes_are_read_and_dropped_as_theirs(form: str) -> None:
    rng = np.random.default_rng(1)
    points = rng.uniform(0, 1, (30, 2, 2)) * (60, 40)
    low, high = points.min(1), points.max(1)
    boxes = {
        "coco": np.concatenate((low, high - low), 1),
        "pascal_voc": np.concatenate((low, high), 1),
        "yolo": np.concatenate(((low + high) / 2, high - low), 1) / (60, 40, 60, 40),
        "albumentations": np.concatenate((low, high), 1) / (60, 40, 60, 40),
    }[form]
    params = A.BboxParams(form, label_fields=["names"], min_visibility=0.4, min_area=9)
    theirs = A.Compose([A.HorizontalFlip(p=1.0), A.CenterCrop(30, 30)], bbox_params=params)
    image = np.zeros((40, 60, 3), np.uint8)
    expected = theirs(image=image, bboxes=boxes, names=np.arange(30))
    found = T.convert(theirs)({"image": image, "bboxes": boxes, "names": np.arange(30)})
    assert 5 < len(expected["names"]) < 25
    assert found["names"].tolist() == expected["names"].astype(int).tolist()
    np.testing.assert_allclose(found["bboxes"], expected["bboxes"], atol=1e-4)


@pytest.mark.parametrize("container", [A.ReplayCompose, A.Sequential, lambda own: A.SomeOf(own, 2)])
def test_children_of_containers_draw_apart(container: Any) -> None:
    """Each of two flips happens as often with the other as without it."""
    kept = container([A.HorizontalFlip(p=0.5), A.VerticalFlip(p=0.5)])
    chain = T.Compose([T.ImageOnly(kept, "array")], seed=0)
    image = torch.zeros(3, 4, 4, dtype=torch.uint8)
    image[:, 0, 0] = 9
    places = [chain(image, index=i)[0].nonzero()[0].tolist() for i in range(200)]
    counts = [places.count(corner) for corner in ([0, 0], [0, 3], [3, 0], [3, 3])]
    assert min(counts) > 12
