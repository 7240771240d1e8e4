"""Transforms that change pixels by their values, and the policies made of them."""

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
from transforms.pixels.steps import POLICIES, VALUES, kinds_of_images, made, picture

Call = Callable[[Tensor], Any]

# torchvision's functions, for images whose white is `white`.
PEERS: dict[str, Callable[[float], Call]] = {
    "invert": lambda white: F.invert,
    "posterize": lambda white: lambda i: F.posterize(i, 3),
    "no bits": lambda white: lambda i: F.posterize(i, 0),
    "all bits": lambda white: lambda i: F.posterize(i, 8),
    "solarize": lambda white: lambda i: F.solarize(i, white * 0.4),
    "autocontrast": lambda white: F.autocontrast,
    "equalize": lambda white: F.equalize,
    "sharpness": lambda white: lambda i: F.adjust_sharpness(i, 2.3),
    "soften": lambda white: lambda i: F.adjust_sharpness(i, 0),
    "gamma": lambda white: lambda i: F.adjust_gamma(i, 1.7),
    "gaussian blur": lambda white: lambda i: F.gaussian_blur(i, [3, 5], [1.3, 1.3]),
}


def assert_levels(found: Tensor, expected: Tensor, *, exact: bool) -> None:
    """Compare uint8 images; a sum in another order may round another way."""
    distance = (found.int() - expected.int()).abs()
    assert distance.max() <= (0 if exact else 1)
    assert (distance > 0).float().mean() < 1e-3


@pytest.mark.parametrize("name", VALUES)
def test_values_are_torchvision_s(name: str) -> None:
    for image in kinds_of_images():
        expected = PEERS[name](255.0)(image)
        assert_levels(made(name)(image), expected, exact=name != "gaussian blur")
        ours, theirs = made(name, 1.0), PEERS[name](1.0)
        for dtype, tolerance in ((torch.float32, 2e-6), (torch.float64, 2e-6)):
            values = (image / 255).to(dtype)
            torch.testing.assert_close(ours(values), theirs(values), rtol=0.0, atol=tolerance)


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


@pytest.mark.parametrize("name", OPERATIONS[:9])
def test_linear_policies_do_what_torchvision_does(name: str) -> None:
    image = photo(torch.float32)
    magnitude = {"TranslateX": -7.9, "TranslateY": -7.9, "Rotate": -20.5}.get(name, -0.3)
    linear = T.TrivialAugment(interpolation="bilinear", operations="linear")
    step = {"operation": np.array([OPERATIONS.index(name)]), "magnitude": np.array([magnitude])}
    params = T.Parameters(["TrivialAugment"], [step], np.array([image.shape[-2:]]))
    found = T.Compose([linear], exact=True)(image, params=params)
    expected = of_torchvision(image, name, magnitude, "bilinear")
    torch.testing.assert_close(found, expected, rtol=0, atol=3e-4)


def test_policies_draw_each_operation_as_often() -> None:
    image = torch.zeros(3, 331, 331, dtype=torch.uint8)
    count = 4200
    sizes = torch.zeros(count, 3, 1, 1, dtype=torch.uint8)
    for policy, names in (("rand augment", OPERATIONS[:-1]), ("trivial augment", OPERATIONS[:-1])):
        steps = T.Compose([POLICIES[policy]()], seed=2).make_params(sizes, index=range(count)).steps
        key = "operation_0" if policy == "rand augment" else "operation"
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


def test_blur_draws_sigma_for_each_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = torch.stack([photo()] * 3)
    chain = T.Compose([T.GaussianBlur(7, (0.5, 3.0))])
    out, params = chain(batch, return_params=True)
    run_torch_operators(monkeypatch)
    assert torch.equal(chain(batch, params=params), out)
    for image, sigma in zip(out, params.steps[0]["sigma"].tolist(), strict=True):
        assert 0.5 <= sigma < 3.0
        assert_levels(image, F.gaussian_blur(batch[0], [7, 7], [sigma, sigma]), exact=False)


IMAGE = torch.zeros(3, 8, 9, dtype=torch.uint8)


def test_a_blur_that_is_not_drawn_costs_nothing_else() -> None:
    image = picture()
    batch = torch.stack([image] * 60)
    chain = T.Compose([T.RandomApply([T.GaussianBlur(7)], 0.5)], seed=0)
    assert [part.kind for part in chain.passes] == ["values"]
    out, params = chain(batch, index=range(60), return_params=True)
    applies, sigmas = params.steps[0]["apply"], params.steps[0]["0_sigma"]
    assert 15 < applies.sum() < 45
    for found, blurred, sigma in zip(out, applies.tolist(), sigmas.tolist(), strict=True):
        assert torch.equal(found, T.GaussianBlur(7, sigma)(image) if blurred else image)
    assert torch.equal(chain(batch, params=params), out)
    alone = torch.stack([chain(image, index=i) for i in range(60)])
    assert torch.equal(alone, out)
    noise = T.Compose([T.RandomApply([T.RandomErasing(1.0, value="random")], 0.5)], seed=0)
    changed = (noise(batch / 255, index=range(60)) != batch / 255).flatten(1).any(1)
    assert 15 < changed.sum() < 45


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
