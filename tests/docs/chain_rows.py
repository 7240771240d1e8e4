"""Rows of docs/moving on chains that no single transform can show: what both libraries give."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
import visops
from torch import Tensor
from torchvision import tv_tensors as tv
from torchvision.transforms import v2
from visops import transforms as T

Pair = tuple[Any, Any]
Row = tuple[Callable[[], Pair], float]
PHOTO = skimage.data.astronaut()[:60, 100:180]
IMAGE = torch.from_numpy(PHOTO).permute(2, 0, 1)
BATCH = IMAGE[None] / 255
MASK = (PHOTO[..., 0] > 120).astype(np.uint8)
BOXES = np.array([[10.0, 20, 50, 44], [0, 0, 6, 8], [60, 30, 80, 60]])
POINTS = np.array([[3.0, 4], [70, 50]])
NAMES = ["a", "b", "c"]
WHITE = np.full((60, 80, 3), 255, np.uint8)


def library() -> Any:
    return importlib.import_module("albumentations")


def chw(image: np.ndarray) -> np.ndarray:
    return image.transpose(2, 0, 1)


# --- albumentations.


def names_of_targets() -> Pair:
    A = library()
    theirs = A.Compose(
        [A.HorizontalFlip(p=1)],
        bbox_params=A.BboxParams("pascal_voc", label_fields=["kinds"]),
        keypoint_params=A.KeypointParams("xy"),
    )(image=PHOTO, bboxes=BOXES, keypoints=POINTS, kinds=NAMES)
    chain = T.Compose(
        [T.RandomHorizontalFlip(1)], keys={"labels": ["kinds"]}, keypoint_convention="integer"
    )
    ours = chain({"image": PHOTO, "bboxes": BOXES, "keypoints": POINTS, "kinds": NAMES})
    assert ours["kinds"] == list(theirs["kinds"]) == NAMES
    return np.concatenate([ours["bboxes"].ravel(), ours["keypoints"].ravel()]), np.concatenate(
        [np.ravel(theirs["bboxes"]), np.ravel(theirs["keypoints"])]
    )


def seeds() -> Pair:
    """The same seed draws the same; a sample's draws are those of its index in ours alone."""
    A = library()
    first, again = (A.Compose([A.Rotate((-80, 80), p=1)], seed=1) for _ in range(2))
    theirs = [make(image=PHOTO)["image"] for make in (first, first, again)]
    assert (theirs[0] == theirs[2]).all()
    assert (theirs[0] != theirs[1]).any()
    data = T.IndexedDataset([PHOTO] * 3, T.Compose([T.RandomRotation(80)], seed=1))
    forwards, backwards = ([data[i] for i in order] for order in (range(3), (2, 1, 0)))
    return torch.stack(forwards), torch.stack(backwards[::-1])


def replayed() -> Pair:
    A = library()
    result = A.ReplayCompose([A.Rotate((-80, 80), p=1)])(image=PHOTO)
    again = A.ReplayCompose.replay(result["replay"], image=PHOTO)
    chain = T.Compose([T.RandomRotation(80)])
    ours, params = chain(PHOTO, return_params=True)
    other = chain(PHOTO, params=params)
    return np.stack([ours, chw(result["image"])]), np.stack([other, chw(again["image"])])


def sizes_round_down() -> Pair:
    A = library()
    theirs = [
        A.SmallestMaxSize(49)(image=PHOTO)["image"].shape[:2],
        A.LongestMaxSize(66)(image=PHOTO)["image"].shape[:2],
    ]
    ours = [T.Resize(49)(PHOTO).shape[1:], T.Resize(None, max_size=66)(PHOTO).shape[1:]]
    exact = [(49, 49 * 80 / 60), (66 * 60 / 80, 66)]
    return [ours, theirs], [np.floor(exact), np.round(exact)]


def crops_to_the_whole() -> Pair:
    A = library()
    return T.RandomCrop((60, 80))(PHOTO), chw(A.RandomCrop(60, 80, p=1)(image=PHOTO)["image"])


def cut_and_padded() -> Pair:
    A = library()
    theirs = A.CropAndPad(px=(3, -4, 5, -6), keep_size=False)(image=PHOTO)["image"]
    return T.CropAndPad(px=(3, -4, 5, -6), keep_size=False)(PHOTO), chw(theirs)


def boxes_stay_whole() -> Pair:
    """Ours: no pixel of a box is lost."""
    chain = T.Compose([T.BBoxSafeRandomCrop()], seed=0)
    boxes = torch.tensor([[20.3, 10.6, 60.2, 50.7]])
    found = chain({"image": PHOTO, "boxes": boxes}, index=0)["boxes"][0]
    return found[2:] - found[:2], boxes[0, 2:] - boxes[0, :2]


def expanded() -> Pair:
    A = library()
    theirs = A.Affine(rotate=(17, 17), fit_output=True, p=1)(image=PHOTO)["image"].shape[:2]
    return T.RandomRotation((17, 17), expand=True)(PHOTO).shape[1:], theirs


def bent() -> Pair:
    """Nothing moves where the range is nothing, and something where it isn't."""
    A = library()
    chain = T.Compose([T.Perspective(0.3, p=1)], seed=0)
    assert (A.Perspective((0.3, 0.3), p=1)(image=PHOTO)["image"] != PHOTO).any()
    assert (chain(PHOTO) != IMAGE).any()
    step = T.Perspective(0, p=1)
    return step(PHOTO), chw(A.Perspective((0, 0), p=1)(image=PHOTO)["image"])


def shifted_in_hsv() -> Pair:
    A = library()
    shifts = (11, 11), (60, 60), (-20, -20)
    theirs = A.HueSaturationValue(*shifts, p=1)(image=PHOTO)["image"]
    return T.HueSaturationValue(*shifts, p=1)(PHOTO), chw(theirs)


def dilated() -> Pair:
    A = library()
    theirs = A.Morphological((3, 5), p=1)(image=PHOTO)["image"]
    return T.Morphological((3, 5), p=1)(PHOTO), chw(theirs)


def to_tensors() -> Pair:
    to_tensor = importlib.import_module("albumentations.pytorch").ToTensorV2()
    return T.Pad(0)(PHOTO), to_tensor(image=PHOTO)["image"]


def _is_rectangle(erased: np.ndarray) -> bool:
    rows, columns = np.nonzero(erased.any(1))[0], np.nonzero(erased.any(0))[0]
    inside = erased[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return bool(erased.any() and not erased.all() and inside.all())


def one_rectangle() -> Pair:
    A = library()
    found = [
        T.RandomErasing(1)(WHITE)[0].numpy() == 0,
        A.Erasing(fill=0, p=1)(image=WHITE)["image"][..., 0] == 0,
    ]
    return [_is_rectangle(erased) for erased in found], [True] * 2


def unbent_fisheye() -> Pair:
    A = library()
    options: dict[str, Any] = {"mode": "fisheye", "p": 1.0}
    theirs = A.OpticalDistortion((0.2, 0.2), **options)(image=PHOTO)["image"]
    return T.OpticalDistortion((0.2, 0.2), **options)(PHOTO).permute(1, 2, 0), theirs


def medians() -> Pair:
    A = library()
    theirs = A.MedianBlur((5, 5), p=1.0)(image=PHOTO)["image"]
    return T.MedianBlur((5, 5), p=1.0)(PHOTO).permute(1, 2, 0), theirs


def holes_in_a_grid() -> Pair:
    A = library()
    theirs = A.GridDropout(0.5, False, holes_number_xy=(5, 5), p=1.0)(image=WHITE)["image"]
    ours = T.GridDropout(0.5, False, holes_number_xy=(5, 5), p=1.0)(WHITE)
    return ours.permute(1, 2, 0), theirs


def rows_of_holes_come_first_there() -> Pair:
    A = library()
    theirs = A.GridDropout(0.5, False, holes_number_xy=(2, 5), p=1.0)(image=WHITE)["image"]
    ours = T.GridDropout(0.5, False, holes_number_xy=(5, 2), p=1.0)(WHITE)
    return ours.permute(1, 2, 0), theirs


def filled_masks() -> Pair:
    A = library()
    theirs = A.Pad(5, border_mode=0, p=1)(image=PHOTO, mask=MASK)["mask"]
    ours = T.Compose([T.Pad(5)], mask_fill=0)({"image": PHOTO, "mask": MASK})["mask"]
    return ours, theirs


def gammas_in_per_cent() -> Pair:
    A = library()
    theirs = A.RandomGamma((150, 150), p=1.0)(image=PHOTO)["image"]
    return T.RandomGamma((1.5, 1.5), p=1.0)(PHOTO).permute(1, 2, 0), theirs


def bicubic_by_name() -> Pair:
    A = library()
    theirs = A.Resize(50, 70, interpolation=2)(image=PHOTO)["image"]
    ours = T.Resize((50, 70), interpolation="bicubic", antialias=False)(PHOTO)
    return ours.permute(1, 2, 0), theirs


def invisible_points() -> Pair:
    A = library()
    params = A.KeypointParams("xy", remove_invisible=True)
    theirs = A.Compose([A.CenterCrop(40, 40, p=1)], keypoint_params=params)
    points = np.array([[1.0, 1], [40, 30], [30, 12]])
    left = theirs(image=PHOTO, keypoints=points)["keypoints"]
    ours = T.Compose([T.CenterCrop(40)])({"image": PHOTO, "keypoints": points})
    assert len(ours["keypoints"]) == 3
    return ours["keypoints"][np.asarray(ours["keypoints_visible"])], left


def dropped_boxes() -> Pair:
    A = library()
    limits: dict[str, Any] = {"min_visibility": 0.5, "min_area": 40}
    params = A.BboxParams("pascal_voc", label_fields=["labels"], **limits)
    crop = A.Compose([A.CenterCrop(30, 60, p=1)], bbox_params=params)
    theirs = crop(image=PHOTO, bboxes=BOXES, labels=NAMES)
    chain = T.Compose([T.CenterCrop((30, 60))], boxes="sanitize", **limits)
    ours = chain({"image": PHOTO, "bboxes": BOXES, "labels": NAMES})
    assert ours["labels"] == list(theirs["labels"]) == ["a"]
    return ours["bboxes"], theirs["bboxes"]


def slivers_are_dropped() -> Pair:
    """A box of half a pixel is left there."""
    A = library()
    sliver = np.array([[10.0, 10, 10.5, 40]])
    params = A.BboxParams("pascal_voc", label_fields=["labels"])
    theirs = A.Compose([A.HorizontalFlip(p=1)], bbox_params=params)
    left = theirs(image=PHOTO, bboxes=sliver, labels=["a"])["labels"]
    chain = T.Compose([T.RandomHorizontalFlip(1)], boxes="sanitize")
    ours = chain({"image": PHOTO, "bboxes": sliver, "labels": ["a"]})["labels"]
    return [len(ours), len(left)], [0, 1]


def some_of_several() -> Pair:
    A = library()
    theirs = [
        A.Compose([A.OneOf([A.HorizontalFlip(p=1)], p=1)])(image=PHOTO)["image"],
        A.Compose([A.Sequential([A.HorizontalFlip(p=1), A.VerticalFlip(p=1)], p=1)])(image=PHOTO)[
            "image"
        ],
    ]
    flips = [T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)]
    ours = [T.RandomChoice(flips[:1])(PHOTO), T.RandomApply(flips, p=1)(PHOTO)]
    return torch.stack(ours), np.stack([chw(image) for image in theirs])


def transposed() -> Pair:
    A, names = library(), ("RandomRotate90", "D4", "Transpose")
    assert all(hasattr(module, name) for module in (A, T) for name in names)
    return T.Transpose(1.0)(PHOTO), chw(A.Transpose(p=1)(image=PHOTO)["image"])


def a_callable() -> Pair:
    A = library()
    blur = A.GaussianBlur((5, 5), (1.5, 1.5), p=1)

    def on_tensor(image: Tensor) -> Tensor:
        blurred = blur(image=np.ascontiguousarray(image.permute(1, 2, 0)))["image"]
        return torch.from_numpy(blurred).permute(2, 0, 1)

    chain = T.Compose([T.RandomHorizontalFlip(1), on_tensor])
    assert len(chain.passes) == 2
    flipped = np.ascontiguousarray(PHOTO[:, ::-1])
    return chain(PHOTO), chw(blur(image=flipped)["image"])


# --- kornia.


def augmentation() -> Any:
    return pytest.importorskip("kornia.augmentation")


def kornia_turn(**options: Any) -> Any:
    return augmentation().RandomRotation((-80.0, 80.0), p=1.0, **options)


def data_keys() -> Pair:
    K = augmentation()
    mask = torch.from_numpy(MASK)[None, None].float()
    boxes = torch.from_numpy(BOXES)[None].float()
    chain = K.AugmentationSequential(
        K.RandomHorizontalFlip(p=1.0), data_keys=["input", "mask", "bbox_xyxy"]
    )
    image, moved, corners = chain(BATCH, mask, boxes)
    ours = T.Compose([T.RandomHorizontalFlip(1)])({"image": BATCH, "mask": mask[0], "boxes": boxes})
    # Their boxes are measured from pixel centres.
    theirs = corners + torch.tensor([1.0, 0, 1, 0])
    parts = zip((ours["image"], ours["mask"], ours["boxes"]), (image, moved, theirs), strict=True)
    pairs = [(a.flatten(), b.flatten()) for a, b in parts]
    return torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs])


def repeated_with_parameters() -> Pair:
    turn = kornia_turn()
    theirs = turn(BATCH)
    again = turn(BATCH, params=turn._params)
    chain = T.Compose([T.RandomRotation(80)])
    ours, params = chain(BATCH, return_params=True)
    return torch.cat([theirs, ours]), torch.cat([again, chain(BATCH, params=params)])


def inverted() -> Pair:
    K = augmentation()
    flip = K.AugmentationSequential(K.RandomHorizontalFlip(p=1.0))
    theirs = flip.inverse(flip(BATCH))
    chain = T.Compose([T.RandomHorizontalFlip(1)])
    ours, params = chain(BATCH, return_params=True)
    return torch.cat([chain.inverse(ours, params), theirs]), torch.cat([BATCH, BATCH])


def same_on_the_batch() -> Pair:
    pair = BATCH.expand(2, -1, -1, -1)
    theirs = kornia_turn(same_on_batch=True)(pair)
    ours = T.Compose([T.RandomRotation(80)], seed=0)(pair, index=[0] * len(pair))
    return torch.stack([theirs[0], ours[0]]), torch.stack([theirs[1], ours[1]])


def corners_of_perspectives() -> Pair:
    """The farthest moves of a corner, inwards: half a side times the scale, ours in pixels."""
    K = augmentation()
    torch.manual_seed(0)
    many = BATCH.expand(500, -1, -1, -1)
    theirs = K.RandomPerspective(0.4, p=1.0)
    theirs(many)
    inwards = torch.tensor([[1.0, 1], [-1, 1], [-1, -1], [1, -1]])
    moved = inwards * (theirs._params["end_points"] - theirs._params["start_points"])
    assert moved.min() >= 0
    _, params = T.Compose([T.RandomPerspective(0.4, 1)], seed=0)(many, return_params=True)
    left = [params.steps[0][f"{side}left_{axis}"] for side in ("top", "bottom") for axis in "xy"]
    left[3] = 59 - left[3]
    assert min(part.min() for part in left) >= 0
    return [max(left[0].max(), left[2].max()), max(left[1].max(), left[3].max())], moved.amax(
        (0, 1)
    )


def erased_shares() -> Pair:
    K = augmentation()
    white = torch.ones(200, 1, 60, 80)
    options: dict[str, Any] = {"scale": (0.1, 0.2), "ratio": (0.5, 2.0)}
    torch.manual_seed(0)
    erased = [
        K.RandomErasing(**options, p=1.0)(white) == 0,
        T.RandomErasing(1, **options)(white) == 0,
    ]
    shares = [part.double().mean((1, 2, 3)) for part in erased]
    inside = [bool(((s > 0.08) & (s < 0.22)).all()) for s in shares]
    assert all(_is_rectangle(part[0, 0].numpy()) for part in erased)
    return [*inside, *(s.mean() for s in shares)], [True, True, 0.15, 0.15]


def blurred_in_a_pass() -> Pair:
    K = augmentation()
    theirs = K.RandomGaussianBlur((5, 5), (1.5, 1.5), p=1.0)
    chain = T.Compose([T.RandomHorizontalFlip(1), lambda image: theirs(image)[0]])
    assert len(chain.passes) == 2
    return chain(BATCH), theirs(BATCH.flip(-1))


def gradients_of_parameters() -> Pair:
    K = pytest.importorskip("kornia.geometry")
    rows = torch.tensor([[[0.93, 0.21, 3.3], [-0.11, 1.07, 2.7]]], dtype=torch.float64)
    matrix, image = rows.requires_grad_(), BATCH.double()
    weights = torch.rand(image.shape, generator=torch.Generator().manual_seed(0)).double()
    ours = visops.augment(image, matrix, (60, 80))
    theirs = K.warp_affine(image, matrix, (60, 80))
    found = [torch.autograd.grad((r * weights).mean(), matrix)[0] for r in (ours, theirs)]
    return found[0], found[1]


def only_here(name: str) -> Pair:
    return [hasattr(T, name), hasattr(v2, name)], [True, False]


def frames() -> Pair:
    clip = torch.stack([IMAGE] * 4)
    torch.manual_seed(0)
    theirs = v2.RandomRotation(80)(clip)
    assert all(torch.equal(theirs[0], frame) for frame in theirs)
    turns = [T.Compose([T.RandomRotation(80)], per_frame=p, seed=0)(clip) for p in (True, False)]
    assert not torch.equal(turns[0][0], turns[0][1])
    return turns[1], turns[1][:1].expand(4, -1, -1, -1)


def leading_dimensions() -> Pair:
    images = torch.stack([IMAGE] * 6).unflatten(0, (2, 3))
    theirs = v2.RandomHorizontalFlip(1.0)(images)
    alone = T.Compose([T.RandomRotation(80)], seed=0)(images, index=range(6))
    shared = T.Compose([T.RandomRotation(80)], seed=0, per_frame=False)(images, index=range(2))
    assert not torch.equal(alone[0, 0], alone[0, 1])
    assert torch.equal(shared[0, 0], shared[0, 1])
    assert not torch.equal(shared[0, 0], shared[1, 0])
    return T.RandomHorizontalFlip(1.0)(images), theirs


def wide_integers() -> Pair:
    image = torch.arange(2**31 - 4096, 2**31)[:3072].to(torch.int32).reshape(3, 32, 32)
    values = {0, *image.unique().tolist()}
    assert set(T.RandomRotation((30, 30), "nearest")(image).unique().tolist()) <= values
    theirs = v2.RandomRotation((30, 30))(image)
    assert not set(theirs.unique().tolist()) <= values  # rounded to floats of 24 bits
    scaled = v2.ToDtype(torch.float64, scale=True)(image)
    assert torch.equal(T.Compose([T.ToDtype(torch.float32, scale=True)])(image), scaled.float())
    turned = T.RandomRotation((90, 90))(image)
    return turned, v2.RandomRotation((90, 90))(image)


def fills_by_type() -> Pair:
    fill = {tv.Image: 0, tv.Mask: 255}
    typed = {"image": tv.Image(IMAGE), "mask": tv.Mask(torch.from_numpy(MASK))}
    plain = {"image": PHOTO, "mask": MASK}
    theirs = v2.Pad(4, fill=fill)(typed)["mask"]
    same = T.Pad(4, fill=fill)(typed)["mask"]
    other = T.Compose([T.Pad(4)], mask_fill=255)(plain)["mask"]
    floats = typed | {"mask": tv.Mask(torch.from_numpy(MASK).float())}
    assert torch.equal(T.Pad(4, fill=fill)(floats)["mask"], v2.Pad(4, fill=fill)(floats)["mask"])
    return np.stack([same, other]), np.stack([theirs, theirs])


def clamped_boxes() -> Pair:
    def moved(chain: Any, mode: str | None) -> Tensor:
        boxes = tv.BoundingBoxes(BOXES, format="XYXY", canvas_size=(60, 80), clamping_mode=mode)
        return chain({"image": tv.Image(IMAGE), "boxes": boxes})["boxes"].as_subclass(Tensor)

    ours = [
        moved(T.Compose([T.CenterCrop(30)], boxes=boxes), "soft") for boxes in ("keep", "clamp")
    ]
    ours.append(moved(T.Compose([v2.CenterCrop(30)]), "hard"))
    theirs = [moved(v2.CenterCrop(30), mode) for mode in (None, "hard", "hard")]
    return torch.stack(ours), torch.stack(theirs)


def lists_of_transforms() -> Pair:
    found = []
    for m in (T, v2):
        inner = m.Compose([m.Pad(1), m.Pad(2)])
        chain = m.Compose([inner])
        chain.transforms.append(m.RandomHorizontalFlip(1))
        found.append((chain(IMAGE), len(chain.transforms)))
    assert [count for _, count in found] == [3, 2]  # flattened here
    return found[0][0], found[1][0]


def older_transforms() -> Pair:
    v1 = importlib.import_module("torchvision.transforms")
    chain = T.Compose([T.Pad(1), v1.RandomHorizontalFlip(1)])
    with pytest.raises(TypeError, match="RandomHorizontalFlip"):
        chain({"image": IMAGE, "boxes": torch.from_numpy(BOXES)})
    return chain(IMAGE), v1.RandomHorizontalFlip(1)(v1.Pad(1)(IMAGE))
