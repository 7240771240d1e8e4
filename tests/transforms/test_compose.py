"""Calling a chain: inputs and results, parameters returned and replayed, the inverse."""

import copy
import pickle
from typing import Any

import fresh
import numpy as np
import pytest
import torch
from visops import transforms as T
from visops.transforms import Canvas, Parameters
from visops.transforms.chain.random import uniforms

from transforms.chains import CHAINS, classification, photo


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32, torch.float64])
def test_image_keeps_its_dtype_unless_converted(dtype: torch.dtype) -> None:
    image = photo(torch.float32).mul(255 if dtype is torch.uint8 else 1).to(dtype)
    out = T.Compose(classification()[:4])(image)
    assert (out.shape, out.dtype) == ((3, 64, 64), dtype)


def test_kinds_of_images_give_the_same_tensor() -> None:
    chain = T.Compose(classification(), seed=1)
    image = photo()
    expected = chain(image, index=3)
    array = image.permute(1, 2, 0).numpy()
    fixed = array.copy()
    fixed.flags.writeable = False
    pil = pytest.importorskip("PIL.Image").fromarray(np.ascontiguousarray(array))
    for kind in (array, fixed, array[:, ::-1][:, ::-1], pil, image.permute(1, 2, 0)):
        out = chain(kind, index=3)
        assert type(out) is torch.Tensor
        assert torch.equal(out, expected)


def test_gray_images_need_no_channels() -> None:
    gray = photo()[0].numpy()
    chain = T.Compose([T.ColorJitter(0.3, 0.3, 0.3, 0.3), T.Resize(50)], seed=1)
    assert torch.equal(chain(gray, index=0), chain(torch.from_numpy(gray)[None], index=0))


def test_image_is_never_written() -> None:
    for make in CHAINS.values():
        image = photo()[:, ::3, ::3]
        kept = image.clone()
        T.Compose(make())(image)
        T.Compose(make())(image[None].expand(3, -1, -1, -1))
        assert torch.equal(image, kept)


def test_several_arguments_count_as_a_tuple() -> None:
    chain = T.Compose(classification(), seed=1)
    image, label = chain(photo(), 7, index=2)
    assert label == 7
    assert torch.equal(image, chain((photo(), 7), index=2)[0])


def test_transform_alone_is_a_chain_of_one() -> None:
    flip = T.RandomHorizontalFlip(1.0)
    image = photo()
    assert torch.equal(flip(image), image.flip(-1))
    assert torch.equal(flip(image, 5)[0], image.flip(-1))
    torch.manual_seed(0)
    out, params = T.RandomRotation(20)(image, return_params=True)
    torch.manual_seed(0)
    assert torch.equal(T.Compose([T.RandomRotation(20)])(image), out)
    assert params.names == ["RandomRotation"]


def test_transforms_are_copied_and_pickled() -> None:
    image = photo()
    for make in CHAINS.values():
        chain = T.Compose(make(), seed=3)
        single = make()[0]
        if not isinstance(single, T.ToDtype):
            single(image)  # creates the chain that it keeps
        expected = chain(image, index=1)
        for other in (copy.deepcopy(chain), pickle.loads(pickle.dumps(chain))):
            assert other.passes[0].compiled is not chain.passes[0].compiled
            for _ in range(2):
                assert torch.equal(other(image, index=1), expected)
        pickle.loads(pickle.dumps(single))
        assert repr(single) == repr(copy.deepcopy(single))


def test_several_images_share_their_draw() -> None:
    left, right = photo(), photo().flip(0)
    two = T.Compose(classification()[:4], seed=1, keys={"image": ["left", "right"]})
    both = two({"left": left, "right": right}, index=2)
    assert torch.equal(both["left"], two(left, index=2))
    assert torch.equal(both["right"], two(right, index=2))


def test_images_of_different_dtypes_are_each_converted() -> None:
    chain = T.Compose(
        [T.RandomHorizontalFlip(), T.ToDtype(torch.float32, scale=False), T.Normalize(1.0, 2.0)],
        seed=1,
        keys={"image": ["photo", "depth"]},
    )
    image, depth = photo(), photo(torch.float32)[:1] * 7
    out = chain({"photo": image, "depth": depth}, index=0)
    assert torch.equal(out["photo"], chain(image, index=0))
    assert torch.equal(out["depth"], chain(depth, index=0))
    assert out["depth"].max() == (depth.max() - 1) / 2


def test_frames_of_a_video_share_their_draw() -> None:
    tv = pytest.importorskip("torchvision.tv_tensors")
    chain = T.Compose(classification(), seed=1)
    frames = torch.stack([photo()[:, i : i + 300] for i in (0, 40, 80)])
    video = chain(tv.Video(frames), index=5)
    assert type(video) is tv.Video
    for frame, out in zip(frames, video, strict=True):
        assert torch.equal(out, chain(frame, index=5))
    batch = chain(tv.Video(torch.stack((frames, frames.flip(-1)))), index=[5, 6])
    assert torch.equal(batch[0], video)
    assert torch.equal(batch[1], chain(tv.Video(frames.flip(-1)), index=6))


def test_each_transform_has_its_slice_of_the_numbers() -> None:
    chain = T.Compose(classification(), seed=2)
    params = chain.make_params(photo(), index=4)
    numbers = uniforms(2, 0, [4], sum(t.draws for t in chain.transforms))
    position, canvas = 0, Canvas(380.0, 440.0)
    for transform, step in zip(chain.transforms, params.steps, strict=True):
        expected = transform.make_params(numbers[:, position : position + transform.draws], canvas)
        assert all((step[key] == expected[key]).all() for key in expected)
        position += transform.draws
        canvas = Canvas(64.0, 64.0)


@pytest.mark.parametrize("exact", [False, True])
def test_targets_follow_pass_by_pass(exact: bool) -> None:
    chain = T.Compose(
        [T.RandomAffine(20, scale=(0.5, 0.9)), T.RandomPerspective(0.3, 1.0, fill=1), T.Resize(50)],
        exact=exact,
    )
    assert len(chain.passes) == 2
    points = torch.tensor([[100.0, 200.0], [220.0, 190.0], [300.0, 150.0]])
    sample = {"image": photo(), "keypoints": points}
    out, params = chain(sample, return_params=True)
    image = photo()
    for transform, name, step in zip(chain.transforms, params.names, params.steps, strict=True):
        own = Parameters([name], [step], np.array([image.shape[1:]]))
        moved = T.Compose([transform])({"image": image, "keypoints": points}, params=own)
        image, points = moved["image"], moved["keypoints"]
    torch.testing.assert_close(out["keypoints"], points, atol=1e-3, rtol=0)


def test_parameters_of_several_passes_are_drawn_without_an_image() -> None:
    chain = T.Compose(
        [
            T.Resize(60),
            T.ToDtype(torch.float32, scale=True),
            T.RandomRotation(20, fill=0.5, expand=True),
            T.Normalize(0.5, 0.5),
            lambda image: image,
            T.RandomErasing(value="random"),
            T.RandomCrop(50),
        ],
        seed=2,
    )
    assert len(chain.passes) == 5
    _, drawn = chain(photo(), index=4, return_params=True)
    params = chain.make_params(torch.empty(3, 380, 440, device="meta"), index=4)
    assert params.names == drawn.names
    assert params.size.tolist() == [[380, 440]]
    for one, other in zip(params.steps, drawn.steps, strict=True):
        assert one.keys() == other.keys()
        assert all((one[key] == other[key]).all() for key in other)


def test_parameters_of_another_chain_or_size_are_refused() -> None:
    flip = T.Compose([T.RandomHorizontalFlip()])
    params = flip.make_params(photo())
    with pytest.raises(ValueError, match=r"params is for \['RandomHorizontalFlip'\], must be for"):
        T.Compose([T.RandomVerticalFlip()])(photo(), params=params)
    with pytest.raises(ValueError, match=r"\[\[380, 440\]\], the images have \[\[380, 439\]\]"):
        flip(photo()[..., 1:], params=params)
    with pytest.raises(TypeError, match="params is a dict, must be the Parameters"):
        flip(photo(), params={})
    with pytest.raises(ValueError, match="index is 3, must be None where params is given"):
        flip(photo(), params=params, index=3)


# What stays in sight of a smooth image must come back to its place.
BACK: dict[str, list[Any]] = {
    "turn": [T.RandomRotation(180, expand=True)],
    "perspective": [T.RandomPerspective(0.3, p=1), T.RandomHorizontalFlip(), T.Pad(9)],
    "affine": [
        T.RandomAffine(20, scale=(0.6, 0.8), shear=10),
        T.ColorJitter(),
        T.Resize((150, 190)),
    ],
    "crop": [T.RandomResizedCrop(160, scale=(0.5, 0.9)), T.RandomVerticalFlip()],
    "two passes": [
        T.RandomAffine((10, 20), (0.2, 0.1), (0.7, 0.8), fill=1),
        T.RandomErasing(0),
        T.RandomRotation((20, 30)),
    ],
}


@pytest.mark.parametrize("name", BACK)
def test_inverse_brings_everything_back(name: str) -> None:
    smooth = torch.nn.functional.interpolate(
        photo(torch.float32)[None, :, ::40, ::40], (200, 240), mode="bicubic", align_corners=True
    )[0]
    chain = T.Compose(BACK[name], seed=1)
    for index in range(2):
        out, params = chain(smooth, index=index, return_params=True)
        back = chain.inverse(out, params)
        assert back.shape == smooth.shape
        seen = chain(torch.ones_like(smooth[:1]), params=params)
        seen = chain.inverse(seen, params)[0] > 0.999
        seen[:2] = seen[-2:] = seen[:, :2] = seen[:, -2:] = False
        if name in ("affine", "two passes"):
            seen &= torch.nn.functional.avg_pool2d(seen[None].float(), 9, 1, 4)[0] == 1
        assert seen.double().mean() > 0.3
        assert (back - smooth)[:, seen].abs().max() < 0.02


def test_inverse_of_a_batch_and_its_targets() -> None:
    chain = T.Compose([T.RandomRotation(30, expand=False), T.RandomHorizontalFlip()], seed=1)
    images = torch.rand(3, 3, 60, 80)
    points = [torch.tensor([[30.0, 25.0], [40.0, 30.0]])] * 3
    sample = {"image": images, "keypoints": points}
    out, params = chain(sample, index=range(3), return_params=True)
    assert not torch.allclose(out["keypoints"][0], points[0])
    back = chain.inverse(out, params)
    assert back["image"].shape == images.shape
    for one, other in zip(back["keypoints"], points, strict=True):
        assert torch.allclose(one, other, atol=1e-3)


def test_inverse_keeps_every_box() -> None:
    chain = T.Compose([T.RandomAffine((0, 0), translate=(0.5, 0.5))], seed=3, boxes="sanitize")
    sample = {"image": torch.rand(3, 40, 60), "boxes": torch.tensor([[20.0, 10.0, 40.0, 30.0]])}
    for index in range(5):
        out, params = chain(sample, index=index, return_params=True)
        out["boxes"] = torch.tensor([[0.0, 0.0, 60.0, 40.0]])  # some of it comes from outside
        x, y = (params.steps[0][f"translate_{axis}"].item() for axis in "xy")
        back = chain.inverse(out, params)["boxes"]
        assert back.tolist() == [[-x, -y, 60 - x, 40 - y]]


def test_inverse_of_another_size_is_refused() -> None:
    chain = T.Compose([T.Resize((30, 40))])
    params = chain.make_params(photo())
    with pytest.raises(ValueError, match=r"inverse: the images have \[\[31, 40\]\] rows"):
        chain.inverse(torch.zeros(3, 31, 40), params)


def test_foreign_transforms_are_called_between_passes() -> None:
    calls = []

    def double(image: torch.Tensor) -> torch.Tensor:
        calls.append((image.shape, image.dtype))
        return image * 2

    chain = T.Compose([T.Resize((20, 30)), double, T.RandomHorizontalFlip(1.0)])
    image = photo(torch.float32)
    expected = T.Resize((20, 30))(image).mul(2).flip(-1)
    assert torch.equal(chain(image), expected)
    assert torch.equal(chain(image[None].repeat(2, 1, 1, 1))[1], expected)
    assert calls == [((3, 20, 30), torch.float32)] * 3
    array = image.permute(1, 2, 0).numpy()
    assert torch.equal(T.Compose([double])(array), image * 2)


def test_unfused_transforms_leave_batches() -> None:
    samples = [photo(torch.float32)[:, i:] for i in (3, 3)]
    for chain in (
        T.Compose([lambda image: image]),
        T.Compose([T.RandomErasing(0, value="random")]),
    ):
        assert torch.equal(chain.collate(samples), torch.stack(samples))
        with pytest.raises(ValueError, match="sample 0 comes out with 377 rows and 440 columns"):
            chain.collate([samples[0], samples[0][:, 1:]])


def test_foreign_transforms_may_resize_and_change_channels() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = T.Compose(
        [v2.Grayscale(1), v2.RandomZoomOut(p=1), T.ColorJitter(0.3), T.Resize((20, 20))]
    )
    out = chain({"image": photo(), "boxes": torch.tensor([[10.0, 10.0, 30.0, 40.0]])})
    assert out["image"].shape == (1, 20, 20)
    assert (out["boxes"] < 20).all()


def test_gradients_reach_the_image() -> None:
    chain = T.Compose(classification()[:-1], seed=1)
    image = photo(torch.float32)[:, ::4, ::4].requires_grad_()
    chain(image, index=0).square().sum().backward()
    assert image.grad is not None
    assert image.grad.abs().sum() > 0


def test_collate_finds_the_index_in_the_samples() -> None:
    chain = T.Compose(classification(), seed=1)
    samples = [{"image": photo()[:, i:], "index": i} for i in (4, 9)]
    batch = chain.collate(samples, epoch=3)
    assert batch["index"].tolist() == [4, 9]
    assert torch.equal(batch["image"][1], chain(samples[1]["image"], index=9, epoch=3))
    assert not torch.equal(chain.collate(samples)["image"], batch["image"])


def test_parameters_can_be_made_by_hand() -> None:
    chain = T.Compose([T.RandomRotation(5)])
    size = np.array([[380, 440]])
    params = Parameters(["RandomRotation"], [{"angle": np.array([180.0])}], size)
    assert torch.equal(chain(photo(), params=params), photo().flip(-1).flip(-2))


@pytest.mark.cuda
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_cuda_gives_the_bits_of_the_cpu(name: str, exact: bool) -> None:
    chain = T.Compose(CHAINS[name](), seed=4, exact=exact)
    batch = torch.stack((photo(), photo().flip(0), photo().flip(1)))
    on_device = batch.cuda()
    chain(on_device, index=range(3))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        out = chain(on_device, index=range(3))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(out.cpu(), chain(batch, index=range(3)))


def test_neither_import_nor_call_loads_torchvision_or_matplotlib() -> None:
    code = """
import sys, torch, visops
sample = {"image": torch.rand(3, 20, 30), "boxes": [[0, 0, 1, 1]], "labels": [1]}
visops.transforms.Compose([visops.transforms.RandomRotation(5)])(sample)
print([m for m in ("torchvision", "matplotlib", "PIL", "scipy") if m in sys.modules])
"""
    assert fresh.run(code, check=True).stdout == "[]\n"


def test_arrays_and_tensors_in_one_batch() -> None:
    array = np.arange(5 * 6 * 3, dtype=np.uint8).reshape(5, 6, 3)
    tensor = torch.from_numpy(array)
    flip = T.Compose([T.RandomHorizontalFlip(1.0)])
    for batch in ([array, tensor], [tensor, array]):
        flipped = flip.collate(batch)
        assert torch.equal(flipped, tensor.flip(1).permute(2, 0, 1).expand(2, -1, -1, -1))
