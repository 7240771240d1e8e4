"""What holds for every transform of pixels, however and with whatever it is called."""

import copy
import pickle

import pytest
import torch
from torch import Tensor
from torchvision import tv_tensors as tv
from visops import transforms as T

from transforms.chains import check_batches, run_torch_operators
from transforms.pixels.steps import PIXELS, STEPS, VALUES, kinds_of_images, made, picture


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("name", PIXELS)
def test_torch_s_operators_give_the_same(
    name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run on a GPU, and where gradients are wanted."""
    pictures = kinds_of_images() if name in VALUES else [picture()]
    white = 255.0 if dtype == torch.uint8 else 1.0
    pictures = [image if dtype == torch.uint8 else image / 255 for image in pictures]
    chain = T.Compose([made(name, white)], seed=3)
    expected = [chain(image, index=4) for image in pictures]
    assert name == "all bits" or not all(map(torch.equal, expected, pictures))
    run_torch_operators(monkeypatch)
    for image, value in zip(pictures, expected, strict=True):
        found = chain(image, index=4)
        assert found.dtype == dtype
        assert torch.equal(found, value)


@pytest.mark.parametrize("name", STEPS)
def test_batches_videos_arrays_threads_and_copies(name: str) -> None:
    image = picture()
    chain = T.Compose([made(name)], seed=1)
    expected = check_batches(chain, image)
    batch = torch.stack([image] * 3)
    _, params = chain(batch, index=range(3), return_params=True)
    assert torch.equal(chain(batch, params=params), expected)
    assert torch.equal(chain(image.numpy().transpose(1, 2, 0), index=1), expected[1])
    still = T.Compose(chain.transforms, seed=1, per_frame=False)
    for frames in (still(batch, index=1), chain(tv.Video(batch), index=1).as_subclass(Tensor)):
        assert torch.equal(frames[0], expected[1])
        if "noise" not in name and "salt" not in name:  # that is of each frame
            assert torch.equal(frames[1], frames[0])
    again = copy.deepcopy(pickle.loads(pickle.dumps(chain)))
    assert torch.equal(again(image, index=2), expected[2])
    resized = T.Compose([made(name), T.Resize((40, 40))], seed=1)
    ragged = resized.collate([image, image[:, :70]], index=[0, 1])
    assert torch.equal(ragged[1], resized(image[:, :70], index=1))


@pytest.mark.parametrize("name", PIXELS)
def test_other_dtypes_tiny_images_none_and_targets(name: str) -> None:
    image = picture()
    floats = T.Compose([made(name, 1.0)], seed=2)
    expected = floats(image / 255, index=0).double()
    for dtype in (torch.float16, torch.float64):
        found = floats((image / 255).to(dtype), index=0)
        assert found.dtype == dtype
        distance = (found.double() - expected).abs().max()
        # Those have thresholds, and a photon's number may be another.
        if name not in ("clahe", "unsharp", "solarize", "snow") and "shot" not in name:
            assert distance < (0.02 if dtype == torch.float16 else 1e-4)
    if name in VALUES and name != "solarize":
        wide = floats((image.int() * 257).to(torch.uint16), index=0)
        assert wide.dtype == torch.uint16
        assert (wide.double() / 65535 - expected).abs().max() < 0.005
    chain = T.Compose([made(name)], seed=2)
    assert chain(torch.zeros((0, 3, 4, 4), dtype=torch.uint8)).shape == (0, 3, 4, 4)
    sample = {"image": image, "boxes": torch.tensor([[1.0, 2, 3, 4]])}
    assert torch.equal(chain(sample)["boxes"], sample["boxes"])
    size = (1, 2) if name != "gaussian blur" else (3, 3)  # its kernel must fit
    assert chain(image[:, : size[0], : size[1]], index=0).shape == (3, *size)


@pytest.mark.parametrize("name", [name for name in PIXELS if name != "gaussian blur"])
def test_p_is_a_probability_for_each_sample(name: str) -> None:
    step = made(name)
    step.p = 0.25
    image = picture()[:, ::4, ::4].contiguous()
    out, params = T.Compose([step], seed=0)(
        torch.stack([image] * 400), index=range(400), return_params=True
    )
    changed = (out != image).flatten(1).any(1).numpy()
    assert (changed <= params.steps[0]["apply"]).all()
    assert 0.17 < params.steps[0]["apply"].mean() < 0.33


@pytest.mark.matrix
@pytest.mark.parametrize("cls", [T.HueSaturationValue, T.RandomHSV, T.RandomSnow, T.ShotNoise])
def test_nan_stays(cls: type) -> None:
    """Colours and noise are computed from all channels, or by comparing: a NaN would get lost."""
    image = picture().float() / 255
    broken = image.clone()
    broken[1, 3, 5] = torch.nan
    chain = T.Compose([cls(p=1)], seed=2)
    found, expected = chain(broken, index=0), chain(image, index=0)
    assert found[1, 3, 5].isnan()
    others = torch.ones_like(image, dtype=torch.bool)
    others[:, 3, 5] = False
    assert torch.equal(found[others], expected[others])
