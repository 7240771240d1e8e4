"""Transforms that change pixels by their values, and the policies made of them."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from visops import transforms as T
from visops.transforms.classes.policies import OPERATIONS

from transforms.chains import photo, run_torch_operators

Call = Callable[[Tensor], Any]

# Ours, always applied, and torchvision's functional, for images whose white is `white`.
STEPS: dict[str, Callable[[float], tuple[Any, Call]]] = {
    "invert": lambda white: (T.RandomInvert(1.0), F.invert),
    "posterize": lambda white: (T.RandomPosterize(3, 1.0), lambda i: F.posterize(i, 3)),
    "no bits": lambda white: (T.RandomPosterize(0, 1.0), lambda i: F.posterize(i, 0)),
    "all bits": lambda white: (T.RandomPosterize(8, 1.0), lambda i: F.posterize(i, 8)),
    "solarize": lambda white: (
        T.RandomSolarize(white * 0.4, 1.0),
        lambda i: F.solarize(i, white * 0.4),
    ),
    "autocontrast": lambda white: (T.RandomAutocontrast(1.0), F.autocontrast),
    "equalize": lambda white: (T.RandomEqualize(1.0), F.equalize),
    "sharpen": lambda white: (
        T.RandomAdjustSharpness(2.3, 1.0),
        lambda i: F.adjust_sharpness(i, 2.3),
    ),
    "soften": lambda white: (T.RandomAdjustSharpness(0, 1.0), lambda i: F.adjust_sharpness(i, 0)),
    "gamma": lambda white: (T.RandomGamma((1.7, 1.7), 1.0), lambda i: F.adjust_gamma(i, 1.7)),
    "blur": lambda white: (
        T.GaussianBlur((3, 5), (1.3, 1.3)),
        lambda i: F.gaussian_blur(i, [3, 5], [1.3, 1.3]),
    ),
}


def images() -> dict[str, Tensor]:
    """Pictures of several kinds, uint8."""
    rng = np.random.default_rng(0)
    dark = photo()[:, ::2, ::2] // 3
    noise = torch.from_numpy(rng.integers(0, 256, (3, 9, 7), np.uint8))
    flat = torch.full((3, 8, 8), 77, dtype=torch.uint8)
    flat[1, 2, 3] = 200
    few = torch.from_numpy(rng.choice(np.array([0, 90, 255], np.uint8), (1, 12, 11)))
    return {"photo": photo(), "dark": dark, "noise": noise, "flat": flat, "few": few}


def assert_levels(found: Tensor, expected: Tensor, *, exact: bool) -> None:
    """Compare uint8 images; a sum in another order may round another way."""
    distance = (found.int() - expected.int()).abs()
    assert distance.max() <= (0 if exact else 1)
    assert (distance > 0).float().mean() < 1e-3


@pytest.mark.parametrize("name", STEPS)
def test_values_are_torchvision_s(name: str) -> None:
    for image in images().values():
        ours, theirs = STEPS[name](255.0)
        assert_levels(ours(image), theirs(image), exact=name != "blur")
        ours, theirs = STEPS[name](1.0)
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 2e-6)):
            values = (image / 255).to(dtype)
            torch.testing.assert_close(ours(values), theirs(values), rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_torch_s_operators_give_the_same(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run on a GPU, and where gradients are wanted."""
    white = 255.0 if dtype == torch.uint8 else 1.0
    pictures = [i if dtype == torch.uint8 else i / 255 for i in images().values()]
    step = STEPS[name](white)[0]
    expected = [step(image) for image in pictures]
    run_torch_operators(monkeypatch)
    for image, value in zip(pictures, expected, strict=True):
        assert torch.equal(step(image), value)


@pytest.mark.parametrize("name", STEPS)
def test_batches_lists_and_videos_are_their_images(name: str) -> None:
    step = STEPS[name](255.0)[0]
    image = photo()
    pair = torch.stack((image, image.flip(-1) // 2))
    for found in (step(pair), torch.stack([step(i) for i in pair]), step(tv.Video(pair))):
        assert torch.equal(found.as_subclass(Tensor)[1], step(pair[1]))
    ragged = T.Compose([step, T.Resize((40, 40))]).collate([image, image[:, :50]])
    assert torch.equal(ragged[0], T.Resize((40, 40))(step(image)))
    assert torch.equal(step(image.numpy().transpose(1, 2, 0)), step(image))


@pytest.mark.parametrize("name", STEPS)
def test_other_dtypes(name: str) -> None:
    image = images()["photo"]
    ours, theirs = STEPS[name](1.0)
    half = ours((image / 255).half())
    assert half.dtype == torch.float16
    if name != "solarize":  # values at the threshold may go either way
        torch.testing.assert_close(half.float(), theirs(image / 255), rtol=0.0, atol=0.01)
        wide = ours((image.int() * 257).to(torch.uint16))
        assert wide.dtype == torch.uint16
        torch.testing.assert_close(wide.float() / 65535, theirs(image / 255), rtol=0, atol=0.005)


def test_one_after_another_in_one_pass() -> None:
    steps = [T.RandomEqualize(1.0), T.RandomPosterize(4, 1.0), T.RandomSolarize(99, 1.0)]
    chain = T.Compose([T.Resize((90, 80)), *steps, T.ToDtype(torch.float32, scale=True)])
    assert [part.kind for part in chain.passes] == ["fused", "values", "fused"]
    image = photo()
    expected = F.solarize(F.posterize(F.equalize(T.Resize((90, 80))(image)), 4), 99)
    torch.testing.assert_close(chain(image), expected / 255)


def test_choices_of_value_steps_run_in_one_pass() -> None:
    group = [T.RandomInvert(1.0), T.RandomPosterize(2, 1.0)]
    image = photo()[:, ::4, ::4]
    batch = torch.stack([image] * 40)
    for choice, results in (
        (T.RandomApply(group, 0.5), [image, group[1](group[0](image))]),
        (T.RandomChoice(group), [step(image) for step in group]),
    ):
        chain = T.Compose([choice], seed=1)
        assert [part.kind for part in chain.passes] == ["values"]
        counts = [0, 0]
        for out in chain(batch, index=range(40)):
            counts[[torch.equal(out, r) for r in results].index(True)] += 1
        assert min(counts) > 8
    mixed = T.Compose([T.RandomApply([T.RandomInvert(1.0), T.RandomHorizontalFlip(1.0)], 1.0)])
    assert torch.equal(mixed(image), (255 - image).flip(-1))


def test_gradients() -> None:
    """A blur has one. Of others it would be lost, so they are refused."""
    image = (photo()[:, ::8, ::8] / 255).requires_grad_()
    T.GaussianBlur(3, 1.0)(image).square().sum().backward()
    assert image.grad is not None
    assert image.grad.abs().sum() > 0
    message = r"the sample wants a gradient, and a pixel operation \(posterize\) has none; must be"
    for step in (T.RandomPosterize(2, 1.0), T.Compose([T.RandomRotation(9), T.RandomPosterize(2)])):
        with pytest.raises(RuntimeError, match=message):
            T.Compose([step], seed=0)(torch.stack([image] * 9))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(image.detach(), torch.ones_like(image))
        with pytest.raises(RuntimeError, match=message):
            T.RandomPosterize(2, 1.0)(dual)
    with torch.no_grad():
        assert T.RandomPosterize(2, 1.0)(image).shape == image.shape
    with pytest.raises(RuntimeError, match="wants a gradient"):
        torch.func.grad(lambda x: T.RandomPosterize(2, 1.0)(x).sum())(image.detach())


def test_vmap() -> None:
    images = torch.stack([photo()[:, ::8, ::8], photo()[:, 1::8, ::8]])
    for step in (T.RandomPosterize(2, 1.0), T.RandomEqualize(1.0), T.MedianBlur((3, 3), 1.0)):
        chain = T.Compose([step], seed=0)
        found = torch.func.vmap(lambda image, c=chain: c(image, index=0))(images)
        assert torch.equal(found, step(images))


POLICIES: dict[str, Callable[[], Any]] = {
    "rand": lambda: T.RandAugment(2, 15),
    "trivial": lambda: T.TrivialAugmentWide(),
    "imagenet": lambda: T.AutoAugment(),
    "cifar10": lambda: T.AutoAugment("cifar10"),
    "svhn": lambda: T.AutoAugment(v2.AutoAugmentPolicy.SVHN),
}


def drawn_operations(params: dict[str, np.ndarray]) -> list[tuple[str, float]]:
    positions = [name for name in params if name.startswith("operation")]
    return [
        (OPERATIONS[int(params[name][0])], float(params[name.replace("operation", "magnitude")][0]))
        for name in positions
    ]


def of_torchvision(image: Tensor, name: str, magnitude: float, mode: str) -> Tensor:
    fill: dict[Any, Any] = {Tensor: None, tv.Image: None}
    if name == "Identity":
        return image
    theirs, how = v2.RandAugment(), v2.InterpolationMode(mode)
    return theirs._apply_image_or_video_transform(image, name, magnitude, how, fill)  # type: ignore[no-any-return, arg-type]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_do_what_torchvision_does(policy: str) -> None:
    chain, image, seen = T.Compose([POLICIES[policy]()], seed=0), photo(), set()
    for index in range(60):
        out, params = chain(image, index=index, return_params=True)
        expected = image
        operations = drawn_operations(params.steps[0])
        for name, magnitude in operations:
            expected = of_torchvision(expected, name, magnitude, "nearest")
        names = {name for name, _ in operations}
        seen |= names
        if names.isdisjoint((*OPERATIONS[1:6], "Color", "Contrast")):
            assert torch.equal(out, expected), operations
        elif names <= {"Identity", "Color", "Contrast"} and len(names) < 3:
            # Sums are cut off to integers, each maybe to the next where the order is another.
            assert (out.int() - expected.int()).abs().max() <= 2, operations
        elif names <= {*OPERATIONS[:6], "Invert", "Posterize", "Brightness"}:
            # A pixel that lies between two is either of them.
            assert (out == expected).float().mean() > 0.9, operations
    assert len(seen) > 5


@pytest.mark.parametrize("name", OPERATIONS[1:6])
def test_policies_move_pixels_as_torchvision_does(name: str) -> None:
    image = F.gaussian_blur(photo(), [9, 9], [3.0, 3.0])
    chain = T.Compose([T.TrivialAugment(interpolation="bilinear")])
    for magnitude in (-0.9, 0.3, 17.0, -30.0):
        if name.startswith("Shear") and abs(magnitude) > 1:
            continue
        step = {"operation": np.array([OPERATIONS.index(name)]), "magnitude": np.array([magnitude])}
        params = T.Parameters(["TrivialAugment"], [step], np.array([image.shape[-2:]]))
        out = chain(image, params=params).int()
        expected = of_torchvision(image, name, magnitude, "bilinear").int()
        inner = (out > 0) & (expected > 0)  # theirs blends into the fill
        assert inner.float().mean() > 0.2
        assert ((out - expected).abs() <= 1)[inner].float().mean() > 0.99


def test_policies_draw_each_operation_as_often() -> None:
    image = torch.zeros(3, 331, 331, dtype=torch.uint8)
    count = 4200
    sizes = torch.zeros(count, 3, 1, 1, dtype=torch.uint8)
    for policy, names in (("rand", OPERATIONS[:-1]), ("trivial", OPERATIONS[:-1])):
        steps = T.Compose([POLICIES[policy]()], seed=2).make_params(sizes, index=range(count)).steps
        key = "operation_0" if policy == "rand" else "operation"
        drawn = np.bincount(steps[0][key], minlength=len(names))
        assert len(drawn) == len(names)
        assert (abs(drawn - count / len(names)) < 5 * (count / len(names)) ** 0.5).all()
    step = T.Compose([T.RandAugment(1, 30)], seed=3)
    found = [drawn_operations(step.make_params(image, index=i).steps[0])[0] for i in range(300)]
    magnitudes: dict[str, set[float]] = {}
    for name, magnitude in found:
        magnitudes.setdefault(name, set()).add(round(magnitude, 4))
    assert magnitudes["TranslateX"] == {150.0, -150.0}
    assert magnitudes["Rotate"] == {30.0, -30.0}
    assert magnitudes["Posterize"] == {4.0}
    assert magnitudes["Solarize"] == {0.0}
    assert magnitudes["Brightness"] == {0.9, -0.9}
    assert magnitudes["Equalize"] == {0.0}


def test_auto_augment_draws_its_pairs() -> None:
    count = 5000
    images = torch.zeros(count, 3, 1, 1, dtype=torch.uint8)
    (step,) = T.Compose([T.AutoAugment()], seed=0).make_params(images, index=range(count)).steps
    first, second = (step[f"operation_{i}"] for i in range(2))
    # Pairs 2 and 25 are Equalize 0.8, Equalize 0.6; pair 13 is Equalize 0.0, Equalize 0.8.
    both = np.mean((first == 13) & (second == 13))
    assert abs(both - 2 / 25 * 0.48) < 0.012
    assert set(first) | set(second) == set(range(15)) - {2, 3, 4, 6}


def test_targets_follow_policies() -> None:
    image = torch.zeros(3, 60, 80, dtype=torch.uint8)
    image[:, 20:40, 30:50] = 255
    sample = {"image": image, "boxes": torch.tensor([[30.0, 20, 50, 40]]), "mask": image[0] // 255}
    chain, moved = T.Compose([T.TrivialAugment()], seed=0), 0
    for index in range(120):
        out, params = chain(sample, index=index, return_params=True)
        (name, magnitude), *_ = drawn_operations(params.steps[0])
        if name.startswith("Translate") and abs(magnitude) < 18:
            moved += 1
            x1, y1, x2, y2 = out["boxes"][0].int().tolist()
            assert (out["image"][0] == 255).nonzero().min(0).values.tolist() == [y1, x1]
            assert (out["mask"] == 1).nonzero().max(0).values.tolist() == [y2 - 1, x2 - 1]
            back = chain.inverse({"boxes": out["boxes"]}, params)["boxes"]
            torch.testing.assert_close(back, sample["boxes"])
    assert moved > 3


def test_linear_policies_say_so_and_fuse() -> None:
    linear = T.RandAugment(2, interpolation="bilinear", operations="linear")
    assert "operations='linear'" in repr(linear)
    chain = T.Compose([T.RandomResizedCrop(32), linear])
    assert [part.kind for part in chain.passes] == ["fused"]
    operations = {
        name
        for index in range(80)
        for name, _ in drawn_operations(
            T.Compose([linear], seed=0).make_params(photo(), index=index).steps[0]
        )
    }
    assert operations <= set(OPERATIONS[:9])


def test_blur_draws_sigma_for_each_sample() -> None:
    batch = torch.stack([photo()] * 3)
    out, params = T.Compose([T.GaussianBlur(7, (0.5, 3.0))])(batch, return_params=True)
    for image, sigma in zip(out, params.steps[0]["sigma"].tolist(), strict=True):
        assert 0.5 <= sigma < 3.0
        assert_levels(image, F.gaussian_blur(batch[0], [7, 7], [sigma, sigma]), exact=False)


IMAGE = torch.zeros(3, 8, 9, dtype=torch.uint8)
ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: T.RandomInvert(2), ValueError, "RandomInvert: p is 2, must be a probability"),
    (lambda: T.RandomPosterize(9), ValueError, "RandomPosterize: bits is 9, must be a whole num"),
    (lambda: T.RandomPosterize(-1), ValueError, "RandomPosterize: bits is -1, must be a whole"),
    (
        lambda: T.RandomSolarize(100, 1.0)(IMAGE / 255),
        ValueError,
        "RandomSolarize: threshold is 100, must not be above 1, the white of torch.float32",
    ),
    (
        lambda: T.RandomSolarize(300, 1.0)(IMAGE),
        ValueError,
        "RandomSolarize: threshold is 300, must not be above 255",
    ),
    (
        lambda: T.RandomSolarize(40000, 1.0)(IMAGE.short()),
        ValueError,
        "RandomSolarize: threshold is 40000, must not be above 32767, the white of torch.int16",
    ),
    (lambda: T.RandomAdjustSharpness(-1), ValueError, "sharpness_factor is -1, must be a finite"),
    (
        lambda: T.RandomAdjustSharpness(2)(IMAGE[:2]),
        ValueError,
        "RandomAdjustSharpness: the image has 2 channels, must have 1 or 3",
    ),
    (lambda: T.RandomGamma((0, 1)), ValueError, "RandomGamma: gamma is (0, 1), must be two numb"),
    (
        lambda: T.RandomGamma((80, 120)),
        ValueError,
        "RandomGamma: gamma is (80, 120), must be two numbers > 0 and <= 20 (min, max): exponents",
    ),
    (lambda: T.AutoAugment("coco"), ValueError, "policy is 'coco', must be 'imagenet', 'cifar10'"),
    (lambda: T.RandAugment(operations="x"), ValueError, "operations is 'x', must be 'all' or 'li"),  # type: ignore[arg-type]
    (lambda: T.GaussianBlur(4), ValueError, "GaussianBlur: kernel_size is 4, must be an odd who"),
    (lambda: T.GaussianBlur((3, 3, 3)), ValueError, "kernel_size is (3, 3, 3), must be an odd"),
    (lambda: T.GaussianBlur(3, -1), ValueError, "GaussianBlur: sigma is -1, must be a number >"),
    (
        lambda: T.GaussianBlur(17)(IMAGE),
        ValueError,
        "GaussianBlur: kernel_size is (17, 17), the image has height 8 and width 9; must be less",
    ),
    (lambda: T.TrivialAugment()(IMAGE[:2]), ValueError, "the image has 2 channels, must have 1 or"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS, ids=[m for _, _, m in ERRORS])
def test_errors(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_a_blur_that_is_not_drawn_costs_nothing_else() -> None:
    batch = torch.stack([photo()] * 60)
    chain = T.Compose([T.RandomApply([T.GaussianBlur(7)], 0.5)], seed=0)
    assert [part.kind for part in chain.passes] == ["values"]
    out, params = chain(batch, index=range(60), return_params=True)
    applies, sigmas = params.steps[0]["apply"], params.steps[0]["0_sigma"]
    assert 15 < applies.sum() < 45
    for image, blurred, sigma in zip(out, applies.tolist(), sigmas.tolist(), strict=True):
        expected = T.GaussianBlur(7, sigma)(photo()) if blurred else photo()
        assert torch.equal(image, expected)
    assert torch.equal(chain(batch, params=params), out)
    alone = torch.stack([chain(photo(), index=i) for i in range(60)])
    assert torch.equal(alone, out)
    noise = T.Compose([T.RandomApply([T.RandomErasing(1.0, value="random")], 0.5)], seed=0)
    changed = (noise(batch / 255, index=range(60)) != batch / 255).flatten(1).any(1)
    assert 15 < changed.sum() < 45


@pytest.mark.parametrize("operations", ["all", "linear"])
def test_copies_of_policies(operations: Any) -> None:
    for policy in (
        T.RandAugment(2, operations=operations),
        T.TrivialAugment(operations=operations),
    ):
        chain = T.Compose([policy, T.AutoAugment(), T.GaussianBlur(3), T.RandomGamma()], seed=0)
        expected = chain(photo(), index=1)
        for twin in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
            assert torch.equal(twin(photo(), index=1), expected)


CHAINS: dict[str, Callable[[], list[Any]]] = {
    "RandAugment": lambda: [T.RandAugment(4)],
    "TrivialAugmentWide": lambda: [T.TrivialAugmentWide()],
    "blur": lambda: [T.RandomApply([T.GaussianBlur(9, (0.1, 2.0))], p=0.7)],
    "values": lambda: [T.RandomEqualize(0.5), T.RandomPosterize(3, 0.5), T.RandomGamma(p=0.5)],
}


@pytest.mark.cuda
@pytest.mark.parametrize("name", CHAINS)
def test_a_gpu_has_the_cpu_s_bits(name: str) -> None:
    batch = torch.stack([photo(), photo().flip(-1), photo() // 3] * 7)
    for pictures in (batch, batch.float() / 255):
        chain = T.Compose([*CHAINS[name](), T.RandomHorizontalFlip()], seed=3)
        on_cpu = chain(pictures, index=range(len(pictures)))
        on_gpu = chain(pictures.cuda(), index=range(len(pictures)))
        assert torch.equal(on_gpu.cpu(), on_cpu)
