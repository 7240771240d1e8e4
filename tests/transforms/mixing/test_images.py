"""MixUp and CutMix: images and labels against torchvision's, draws, seeds, wrong arguments."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from bad_input import check, table
from scipy import stats
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset, default_collate
from visops import transforms
from visops.transforms.chain.random import DRAWS, beta

T: Any = transforms  # arguments of any type
tv = pytest.importorskip("torchvision.tv_tensors")
v2 = pytest.importorskip("torchvision.transforms.v2")

BATCH, CLASSES = 5, 7
torch.manual_seed(0)
IMAGES = torch.rand(BATCH, 3, 12, 18)
LABELS = torch.tensor([3, 0, 6, 6, 2])
PROBABILITIES = torch.rand(BATCH, CLASSES).softmax(1)
MIXES = [T.MixUp, T.CutMix]


def theirs(mix: Any, images: Tensor, labels: Tensor, step: Any) -> tuple[Tensor, Tensor]:
    """What torchvision makes of each sample, whose parameters it shares in a batch."""
    results = []
    for b in range(len(images)):
        if isinstance(mix, T.MixUp):
            peer = v2.MixUp(num_classes=CLASSES)
            params: dict[str, Any] = {"lam": float(step["lam"][b])}
        else:
            peer = v2.CutMix(num_classes=CLASSES)
            box = [int(step[name][b]) for name in ("left", "top", "right", "bottom")]
            area = (box[2] - box[0]) * (box[3] - box[1])
            params = {"box": box, "lam_adjusted": 1.0 - area / (12 * 18)}
        params |= {"labels": labels, "batch_size": len(images)}
        results.append([peer.transform(x, params)[b] for x in (images, labels)])
    return tuple(torch.stack(part) for part in zip(*results, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("labels", [LABELS, PROBABILITIES], ids=["classes", "probabilities"])
@pytest.mark.parametrize("make", MIXES)
def test_equals_torchvision(make: Any, labels: Tensor) -> None:
    mix = make(num_classes=CLASSES)
    (images, mixed), params = mix(IMAGES, labels, return_params=True)
    expected = theirs(mix, IMAGES, labels, params.steps[0])
    assert torch.equal(images, expected[0])
    torch.testing.assert_close(mixed, expected[1], rtol=1e-6, atol=1e-7)
    assert not torch.equal(images, IMAGES)


@pytest.mark.parametrize("make", MIXES)
def test_integer_images(make: Any) -> None:
    """torchvision's MixUp refuses them: expected are rounded floats."""
    photos = (IMAGES * 255).round().to(torch.uint8)
    mix = make(num_classes=CLASSES, seed=3)
    mixed, _ = mix(photos, LABELS, index=range(BATCH))
    expected, _ = mix(photos.float(), LABELS, index=range(BATCH))
    assert mixed.dtype == torch.uint8
    assert torch.equal(mixed, expected.round().to(torch.uint8))


@pytest.mark.parametrize("make", MIXES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_floating_images(make: Any, dtype: torch.dtype) -> None:
    mix = make(num_classes=CLASSES, seed=3)
    mixed, _ = mix(IMAGES.to(dtype), LABELS, index=range(BATCH))
    expected, _ = mix(IMAGES.to(dtype).double(), LABELS, index=range(BATCH))
    assert mixed.dtype == dtype
    torch.testing.assert_close(mixed.double(), expected, rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("make", MIXES)
def test_forms_of_a_batch(make: Any) -> None:
    """Dicts, arrays, lists, tv_tensors and videos are mixed like a pair of tensors."""
    mix = make(num_classes=CLASSES, seed=1)

    def run(sample: Any) -> Any:
        return mix(sample, index=range(BATCH))

    images, labels = run((IMAGES, LABELS))
    for sample in (
        {"image": IMAGES, "labels": LABELS},
        {"image": list(IMAGES), "Labels": LABELS.numpy()},
        {"image": IMAGES.permute(0, 2, 3, 1).numpy(), "class_label": LABELS.tolist()},
        {"image": tv.Image(IMAGES), "a_label": LABELS, "file": list("abcde"), "weight": 3},
    ):
        result = run(sample)
        assert list(result) == list(sample)
        assert torch.equal(torch.as_tensor(list(result.values())[1]), labels)
        assert torch.equal(result["image"].as_subclass(Tensor), images)
        assert {k: v for k, v in result.items() if k in ("file", "weight")} == {
            k: v for k, v in sample.items() if k in ("file", "weight")
        }
    assert isinstance(run((tv.Image(IMAGES), LABELS))[0], tv.Image)
    clips = IMAGES.reshape(BATCH, 1, 3, 12, 18).expand(-1, 4, -1, -1, -1)
    mixed, _ = run((tv.Video(clips), LABELS))
    assert torch.equal(mixed.as_subclass(Tensor), images[:, None].expand(-1, 4, -1, -1, -1))


@pytest.mark.parametrize("make", MIXES)
def test_labels_getter(make: Any) -> None:
    sample = {"image": IMAGES, "a": {"target": LABELS, "labels": PROBABILITIES}}
    mix = make(num_classes=CLASSES, labels_getter=lambda s: s["a"]["target"])
    result = mix(sample)
    assert result["a"]["target"].shape == (BATCH, CLASSES)
    assert result["a"]["labels"] is PROBABILITIES
    assert torch.equal(make(labels_getter=None)(sample)["a"]["target"], LABELS)


@pytest.mark.parametrize("make", MIXES)
def test_gradients(make: Any) -> None:
    images = IMAGES.double().requires_grad_()
    mix = make(num_classes=CLASSES, seed=0)
    mixed, _ = mix(images, LABELS, index=range(BATCH))
    mixed.sum().backward()
    assert images.grad is not None
    # What a sample gives to the next, its next has of it.
    total = images.grad.sum() / images.numel()
    assert float(total) == pytest.approx(1.0, abs=1e-12)
    assert float(images.grad.min()) >= 0.0


@pytest.mark.parametrize("make", [*MIXES, lambda **kw: T.Mosaic(8, fill=0, seed=kw["seed"])])
def test_draws_follow_the_rules_of_compose(make: Any) -> None:
    sample = (IMAGES, LABELS)

    def mix(seed: int | None = 0) -> Any:
        return make(num_classes=CLASSES, seed=seed)

    def same(a: Any, b: Any) -> bool:
        return torch.equal(a[0], b[0])

    first = mix()
    indexed = first(sample, index=range(BATCH), epoch=2)
    assert same(mix()(sample, index=torch.arange(BATCH), epoch=2), indexed)
    assert not same(mix()(sample, index=range(BATCH), epoch=3), indexed)
    assert not same(mix(1)(sample, index=range(BATCH), epoch=2), indexed)
    # With a seed alone, calls are counted.
    one, two = mix(), mix()
    calls = [one(sample) for _ in range(3)]
    assert not same(calls[0], calls[1])
    assert all(same(two(sample), call) for call in calls)
    copied = pickle.loads(pickle.dumps(one))
    assert same(copied(sample), one(sample))
    # Without a seed, torch's generators draw.
    free = mix(None)
    torch.manual_seed(4)
    drawn = free(sample)
    torch.manual_seed(4)
    assert same(free(sample), drawn)
    generator = torch.Generator().manual_seed(9)
    drawn, params = free(sample, generator=generator, return_params=True)
    assert same(free(sample, generator=torch.Generator().manual_seed(9)), drawn)
    assert same(free(sample, params=params), drawn)
    assert params.names == [type(free).__name__]


@pytest.mark.parametrize("make", MIXES)
def test_draws_of_a_sample_do_not_depend_on_its_batch(make: Any) -> None:
    mix = make(labels_getter=None, seed=0)
    _, whole = mix(IMAGES, index=range(BATCH), return_params=True)
    _, half = mix(IMAGES[2:4], index=[2, 3], return_params=True)
    for name, values in whole.steps[0].items():
        np.testing.assert_array_equal(values[2:4], half.steps[0][name])


def test_in_a_collate_fn() -> None:
    dataset = TensorDataset(IMAGES, LABELS)
    for make in MIXES:
        mix = make(num_classes=CLASSES, seed=0)
        loader = DataLoader(dataset, BATCH, collate_fn=lambda s, m=mix: m(*default_collate(s)))  # type: ignore[misc]
        images, labels = next(iter(loader))
        again = DataLoader(dataset, BATCH, collate_fn=make(num_classes=CLASSES, seed=0).collate)
        collated, mixed = next(iter(again))
        assert torch.equal(images, collated)
        assert torch.equal(labels, mixed)
    choice = v2.RandomChoice([T.MixUp(num_classes=CLASSES), T.CutMix(num_classes=CLASSES)])
    assert choice(IMAGES, LABELS)[1].shape == (BATCH, CLASSES)


def test_collate_takes_the_index_of_the_samples() -> None:
    samples = [{"image": x, "labels": 1, "index": 10 + i} for i, x in enumerate(IMAGES)]
    mix = T.MixUp(num_classes=CLASSES, seed=0)
    expected = mix(IMAGES, LABELS, index=range(10, 10 + BATCH))[0]
    assert torch.equal(mix.collate(samples)["image"], expected)
    assert not torch.equal(mix.collate(samples, epoch=1)["image"], expected)


@pytest.mark.parametrize("make", MIXES)
def test_batches_of_one_and_none(make: Any) -> None:
    mix = make(num_classes=CLASSES)
    one, labels = mix(IMAGES[:1], LABELS[:1])
    torch.testing.assert_close(one, IMAGES[:1])  # it is mixed with itself
    torch.testing.assert_close(labels, torch.eye(CLASSES)[LABELS[:1]])
    none, labels = mix(IMAGES[:0], LABELS[:0])
    assert none.shape == (0, 3, 12, 18)
    assert labels.shape == (0, CLASSES)


@pytest.mark.parametrize("alpha", [0.1, 0.4, 1.0, 2.0, 32.0])
def test_beta(alpha: float) -> None:
    rng = np.random.default_rng(0)
    drawn = [beta(row, alpha) for row in rng.random((4000, DRAWS)).tolist()]
    assert stats.kstest(drawn, stats.beta(alpha, alpha).cdf).pvalue > 0.01
    assert 0.0 <= min(drawn) <= max(drawn) <= 1.0


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("edge", [0.0, math.nextafter(1.0, 0.0)])
def test_beta_at_the_edges(alpha: float, edge: float) -> None:
    assert 0.0 <= beta([edge] * DRAWS, alpha) <= 1.0


def test_rectangles_are_distributed_as_torchvision_draws_them() -> None:
    rng = np.random.default_rng(0)
    sizes = np.tile([[37, 53]], (3000, 1))
    step = T.CutMix().draw(rng.random((3000, T.CutMix.draws)), sizes)
    peer = v2.CutMix(num_classes=2)
    torch.manual_seed(0)
    boxes = np.array([peer.make_params([IMAGES.new_zeros(3, 37, 53)])["box"] for _ in range(3000)])
    for index, name in enumerate(("left", "top", "right", "bottom")):
        assert stats.ks_2samp(step[name], boxes[:, index]).pvalue > 0.001


def test_a_chain_can_not_hold_them() -> None:
    for transform in (T.MixUp(), T.CutMix(), T.Mosaic(8)):
        name = type(transform).__name__
        message = (
            f"transforms.Compose: transforms holds a {name}, which combines the samples of a "
            "batch; must be called with the batch, after the chain"
        )
        check(TypeError, message, lambda t=transform: T.Compose([t]))  # type: ignore[misc]


def mixing(sample: Any, make: Callable[..., Any] = T.MixUp, **options: Any) -> Callable[[], Any]:
    return lambda: make(**options)(sample)


@table(
    (
        ValueError,
        "transforms.MixUp: sample[0] is one image, must be a batch of them",
        mixing((IMAGES[0], LABELS[0]), num_classes=CLASSES),
    ),
    (
        ValueError,
        "transforms.CutMix: sample['image'][1] has 12 rows and 17 columns, sample['image'][0] has "
        "12 and 18; must be the same",
        mixing({"image": [IMAGES[0], IMAGES[1, :, :, 1:]], "labels": [1, 2]}, T.CutMix),
    ),
    (
        ValueError,
        "transforms.MixUp: found no labels in the sample, a Tensor; must be (images, labels) or",
        mixing(IMAGES, num_classes=CLASSES),
    ),
    (
        ValueError,
        "transforms.MixUp: num_classes is None, must be given where labels are classes, as "
        "sample[1] is",
        mixing((IMAGES, LABELS)),
    ),
    (
        ValueError,
        "transforms.CutMix: sample[1][2] is 6, must be from 0 to 5",
        mixing((IMAGES, LABELS), T.CutMix, num_classes=6),
    ),
    (
        ValueError,
        "transforms.MixUp: sample[1] has shape [4], must be classes [5] or probabilities [5, 7] of "
        "5 images (videos must be tv_tensors.Video)",
        mixing((IMAGES, LABELS[1:]), num_classes=CLASSES),
    ),
    (
        ValueError,
        "transforms.MixUp: sample[1] has shape [5, 7], must be classes [5] or probabilities [5, 8]",
        mixing((IMAGES, PROBABILITIES), num_classes=8),
    ),
    (
        ValueError,
        "transforms.MixUp: sample[1] has dtype torch.float32, must be classes [5] or",
        mixing((IMAGES, LABELS.float()), num_classes=CLASSES),
    ),
    (
        ValueError,
        "transforms.MixUp: sample['labels'] has dtype",
        mixing({"image": IMAGES, "labels": [0.5] * 5}, num_classes=CLASSES),
    ),
    (
        TypeError,
        "transforms: sample[0] has dtype torch.uint32, must be uint8",
        mixing((IMAGES.to(torch.uint32), LABELS), num_classes=CLASSES),
    ),
    (
        ValueError,
        "transforms.MixUp: sample['mask'] is a mask of the image, and classes can't be blended",
        mixing({"image": IMAGES, "mask": IMAGES[:, 0].byte()}, labels_getter=None),
    ),
    (
        ValueError,
        "transforms.MixUp: index is 3, must be None, or MixUp must be given a seed",
        lambda: T.MixUp(labels_getter=None)(IMAGES, index=3),
    ),
    (
        TypeError,
        "transforms.CutMix: params is a int, must be the Parameters that a call has returned",
        lambda: T.CutMix(labels_getter=None)(IMAGES, params=3),
    ),
)
def test_bad_input(error: type[Exception], message: str, call: Callable[[], Any]) -> None:
    check(error, message, call)


COUNT, SIZE = 12, (24, 32)


def batch() -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    boxes = [
        torch.tensor([[2.0, 3, 12, 15], [8, 4, 30, 20]])[: 1 + index % 2] for index in range(COUNT)
    ]
    masks = [torch.zeros(len(own), *SIZE, dtype=torch.uint8) for own in boxes]
    for own, mask in zip(boxes, masks, strict=True):
        for (x1, y1, x2, y2), plane in zip(own.int().tolist(), mask, strict=True):
            plane[y1:y2, x1:x2] = 1
    images = torch.rand(COUNT, 3, *SIZE, generator=generator)
    images[:, 0, 0, 0] = torch.inf  # what a weight of 0 would turn into NaN
    return {
        "image": images,
        "boxes": boxes,
        "masks": masks,
        "labels": [torch.full((len(own),), index) for index, own in enumerate(boxes)],
    }


LIKELY: dict[str, Callable[..., Any]] = {
    "MixUp": lambda **options: T.MixUp(labels_getter=None, **options),
    "CutMix": lambda **options: T.CutMix(labels_getter=None, **options),
    "CutMix, kept": lambda **options: T.CutMix(labels_getter=None, boxes="keep", **options),
    "CopyPaste": lambda **options: T.CopyPaste(**options),
}


@pytest.mark.parametrize("name", LIKELY)
def test_samples_that_are_not_mixed_stay(name: str) -> None:
    given = batch()
    found, params = LIKELY[name](p=0.5, seed=3)(given, return_params=True)
    mixed = params.steps[0]["mixed"]
    assert 0 < mixed.sum() < COUNT
    for index in range(COUNT):
        same = torch.equal(found["image"][index], given["image"][index])
        assert same == (not mixed[index])
        if not mixed[index]:
            for key in ("boxes", "masks", "labels"):
                assert torch.equal(found[key][index], given[key][index])
        else:
            assert len(found["labels"][index]) == len(found["boxes"][index])
    again = LIKELY[name](p=0.5)(given, params=params)
    assert torch.equal(again["image"], found["image"])


@pytest.mark.parametrize("name", LIKELY)
def test_probabilities_of_one_and_none(name: str) -> None:
    given = batch()
    plain, params = LIKELY[name](seed=3)(given, return_params=True)
    assert "mixed" not in params.steps[0]
    always = LIKELY[name](seed=3, p=1.0)(given)
    assert torch.equal(always["image"], plain["image"])
    never = LIKELY[name](seed=3, p=0.0)(given)
    assert torch.equal(never["image"], given["image"])
    assert all(map(torch.equal, never["boxes"], given["boxes"]))


@pytest.mark.parametrize("name", ["MixUp", "CutMix"])
def test_labels_of_images(name: str) -> None:
    images, labels = batch()["image"].nan_to_num(posinf=1.0), torch.arange(COUNT)
    mix = getattr(T, name)(num_classes=COUNT, p=0.4, seed=1)
    (_, found), params = mix(images, labels, return_params=True)
    for index, mixed in enumerate(params.steps[0]["mixed"]):
        assert bool(found[index, index] == 1.0) >= (not mixed)
        assert found[index].sum() == pytest.approx(1.0)


MOVEMENTS: list[dict[str, Any]] = [{}, {"scale": (1.0, 1.0)}, {"degrees": (90, 90)}]


@pytest.mark.parametrize("movement", MOVEMENTS, ids=str)
def test_images_alone_on_a_canvas(movement: dict[str, Any]) -> None:
    """As `Letterbox` puts them into the result, turned where the canvas turns."""
    given = batch()
    given["image"] = (given["image"].nan_to_num(posinf=1.0) * 255).to(torch.uint8)
    mosaic = T.Mosaic((32, 32), p=0.5, seed=2, fill=9, mask_fill=7, **movement)
    found, params = mosaic(given, return_params=True)
    size = (32, 32) if movement else (64, 64)
    steps = [T.Letterbox(size, fill=9)]
    if "degrees" in movement:
        steps.append(T.RandomAffine((90, 90), fill=9))
    alone = T.Compose(steps, boxes="sanitize", seed=0)
    mixed = params.steps[0]["mixed"]
    assert 0 < mixed.sum() < COUNT
    for index in np.flatnonzero(~mixed):
        own = alone({key: value[index] for key, value in given.items()})
        difference = (own["image"].int() - found["image"][index].int()).abs()
        assert int(difference.max()) == 0
        for key in ("boxes", "labels"):
            assert torch.allclose(own[key].float(), found[key][index].float(), atol=1e-4)
        assert torch.equal(own["masks"], found["masks"][index])
    for index in np.flatnonzero(mixed):
        assert found["image"][index].shape == (3, *size)


def test_a_canvas_that_shrinks_is_filled_around_an_image() -> None:
    images = torch.zeros(6, 1, 16, 16, dtype=torch.uint8)
    mosaic = T.Mosaic(16, p=0.0, seed=0, fill=200, scale=(0.5, 0.5))
    found = mosaic(images)
    assert (found[:, :, 4:12, 4:12] == 0).all()
    assert (found == 0).sum() == 6 * 64
    assert (found == 200).sum() == 6 * (256 - 64)
