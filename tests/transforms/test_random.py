"""Random numbers: their stream, what changes it, and that parameters depend on nothing else."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from visops import transforms
from visops.transforms.chain.random import fresh_key, uniforms

from transforms.chains import CHAINS, classification, photo


def philox(key: list[int], counter: list[int]) -> list[int]:
    """Philox 4x64 with ten rounds, as its authors define it."""
    word = 2**64 - 1
    for _ in range(10):
        one, two = counter[0] * 0xD2E7470EE14C6C93, counter[2] * 0xCA5A826395121157
        counter = [
            (two >> 64) ^ counter[1] ^ key[0],
            two & word,
            (one >> 64) ^ counter[3] ^ key[1],
            one & word,
        ]
        key = [(key[0] + 0x9E3779B97F4A7C15) & word, (key[1] + 0xBB67AE8584CAA73B) & word]
    return counter


def test_stream_is_that_of_philox() -> None:
    # The numbers of a seed must never change, whatever NumPy does.
    seed, epoch, index = 3, 1, 2
    raw = philox([seed, epoch], [1, index, 0, 0]) + philox([seed, epoch], [2, index, 0, 0])
    expected = [(number >> 11) * 2.0**-53 for number in raw]
    assert uniforms(seed, epoch, [index], 8)[0].tolist() == expected


def test_numbers_depend_on_seed_epoch_and_index_only() -> None:
    all_of_them = uniforms(9, 4, range(50), 7)
    assert (uniforms(9, 4, [31], 7)[0] == all_of_them[31]).all()
    assert (uniforms(9, 4, [31, 5], 3) == all_of_them[[31, 5], :3]).all()
    for other in (uniforms(8, 4, range(50), 7), uniforms(9, 5, range(50), 7)):
        assert (other != all_of_them).all()
    assert len(np.unique(all_of_them)) == all_of_them.size
    assert (uniforms(-1, 0, [0], 2) == uniforms(2**64 - 1, 0, [0], 2)).all()


def test_numbers_are_the_same_in_threads() -> None:
    expected = uniforms(1, 0, range(200), 30)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda i: uniforms(1, 0, [i], 30)[0], range(200)))
    assert (np.stack(rows) == expected).all()


def test_numbers_are_uniform_and_independent() -> None:
    numbers = uniforms(0, 0, range(3000), 20)
    assert scipy.stats.kstest(numbers.ravel(), "uniform").pvalue > 0.01
    # The difference of two independent uniform numbers has a triangular distribution.
    triangular = scipy.stats.triang(0.5, loc=-1.0, scale=2.0)
    for pairs in (numbers[1::2] - numbers[::2], numbers[:, 1::2] - numbers[:, ::2]):
        assert scipy.stats.kstest(pairs.ravel(), triangular.cdf).pvalue > 0.01


def test_noise_is_normal_and_depends_on_its_key() -> None:
    erase = transforms.Compose([transforms.RandomErasing(1.0, value="random")])
    sample = torch.zeros(1, 140, 140)
    _, params = erase(sample, return_params=True)

    def noise(key: float, side: int = 140) -> np.ndarray:
        own = {"apply": 1, "top": 0, "left": 0, "height": side, "width": side, "noise": key}
        for name, value in own.items():
            params.steps[0][name][:] = value
        found: torch.Tensor = erase(sample, params=params)[0, :side, :side]
        return found.flatten().numpy()

    found = noise(0.3)
    assert scipy.stats.kstest(found, "norm").pvalue > 0.01
    assert abs(np.corrcoef(found[:-1:2], found[1::2])[0, 1]) < 0.03
    assert (noise(0.3, 5) == found[:25]).all()
    assert (noise(0.30000001, 5) != found[:25]).all()


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CHAINS)
def test_sample_is_the_same_alone_and_in_a_batch(name: str, exact: bool) -> None:
    chain = transforms.Compose(CHAINS[name](), seed=5, exact=exact)
    image = photo()[:, ::4, ::4]
    count = 5
    batch = torch.stack([image.roll(7 * i, 2) for i in range(count)])
    indices = [i * i for i in range(count)]
    images, params = chain(batch, index=indices, epoch=2, return_params=True)
    for i in range(count):
        alone, own = chain(batch[i], index=indices[i], epoch=2, return_params=True)
        for together, single in zip(params.steps, own.steps, strict=True):
            assert together.keys() == single.keys()
            for key in single:
                assert (together[key][i] == single[key][0]).all(), key
        assert torch.equal(alone, images[i])


@pytest.mark.parametrize("name", CHAINS)
def test_collated_samples_equal_single_calls(name: str) -> None:
    chain = transforms.Compose([transforms.Resize((70, 90)), *CHAINS[name]()], seed=1)
    samples = [photo()[:, : 100 + 9 * i, : 200 - 7 * i] for i in range(4)]
    batch = chain.collate([(image, i) for i, image in enumerate(samples)], index=range(3, 7))
    assert batch[1].tolist() == list(range(4))
    for i, image in enumerate(samples):
        assert torch.equal(batch[0][i], chain(image, index=3 + i))


def test_appending_a_transform_keeps_the_draws() -> None:
    image = torch.zeros(3, 40, 50, dtype=torch.uint8)
    before = transforms.Compose(classification(), seed=3).make_params(image, index=8)
    longer = [*classification(), transforms.RandomGrayscale(0.5)]
    after = transforms.Compose(longer, seed=3).make_params(image, index=8)
    for one, other in zip(before.steps, after.steps, strict=False):
        assert all((one[key] == other[key]).all() for key in one)


def test_without_a_seed_the_global_generator_draws() -> None:
    chain = transforms.Compose(classification())
    image = photo()
    torch.manual_seed(4)
    first, second = chain(image), chain(image)
    torch.manual_seed(4)
    assert torch.equal(chain(image), first)
    assert not torch.equal(first, second)


def test_generator_leaves_the_global_one_alone() -> None:
    chain = transforms.Compose(classification())
    image = photo()
    state = torch.get_rng_state()
    first = chain(image, generator=torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(chain(image, generator=torch.Generator().manual_seed(1)), first)
    assert not torch.equal(chain(image, generator=torch.Generator().manual_seed(2)), first)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_workers_draw_different_numbers_without_an_index() -> None:
    class Same(torch.utils.data.Dataset):
        """One photo under a chain that draws from its worker's generator."""

        def __len__(self) -> int:
            return 9

        def __getitem__(self, i: int) -> Any:
            return chain(photo())

    chain = transforms.Compose(classification())
    images = torch.cat(list(torch.utils.data.DataLoader(Same(), 3, num_workers=2)))
    assert len({image.numpy().tobytes() for image in images}) == len(images)


def test_foreign_transforms_are_seeded_too() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    chain = transforms.Compose([v2.GaussianBlur(5, (0.1, 3.0)), transforms.Resize(40)], seed=2)
    image = photo()
    state = torch.get_rng_state()
    alone, params = chain(image, index=7, return_params=True)
    assert torch.equal(torch.get_rng_state(), state)
    batch = chain(torch.stack([image] * 3), index=[6, 7, 8])
    assert torch.equal(batch[1], alone)
    assert not torch.equal(batch[0], alone)
    assert torch.equal(chain(image, params=params), alone)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"index": 3},
            ValueError,
            "index is 3, must be None, or Compose must be given a seed",
        ),
        (
            {"generator": torch.Generator(), "index": 3, "seed": 1},
            ValueError,
            "must be None where an index is given",
        ),
        ({"index": [1, 2], "seed": 1}, ValueError, "index is [1, 2], must be a whole number"),
        ({"index": 1.5, "seed": 1}, TypeError, "index is 1.5, must be a whole number"),
        ({"index": True, "seed": 1}, TypeError, "index is True, must be a whole number"),
        ({"index": 1, "epoch": 0.5, "seed": 1}, TypeError, "epoch is 0.5, must be a whole number"),
        ({"epoch": True, "seed": 1}, TypeError, "epoch is True, must be a whole number"),
        (
            {"index": 1, "epoch": torch.tensor([1]), "seed": 1},
            TypeError,
            "epoch is tensor([1]), must be a whole number",
        ),
        (
            {"index": torch.tensor(1.0), "seed": 1},
            TypeError,
            "index is tensor(1.), must be a whole number",
        ),
    ],
)
def test_wrong_sources_are_refused(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    seed = options.pop("seed", None)
    chain = transforms.Compose([transforms.RandomHorizontalFlip()], seed=seed)
    with pytest.raises(error, match=r"visops\.transforms\.Compose: ") as caught:
        chain(torch.zeros(3, 4, 5), **options)
    assert message in str(caught.value)
    options["seed"] = seed


def test_there_must_be_an_index_for_each_sample() -> None:
    chain = transforms.Compose([transforms.RandomHorizontalFlip()], seed=1)
    with pytest.raises(ValueError, match="index is 3, must be 2 whole numbers, one per sample"):
        chain(torch.zeros(2, 3, 4, 5), index=3)
    images = torch.rand(2, 3, 4, 5)
    expected = chain(images, index=[3, 4])
    for index in (
        *(torch.tensor([3, 4]), np.array([3, 4]), range(3, 5)),
        *([torch.tensor(3), np.int32(4)], (np.array(3), torch.tensor(4, dtype=torch.uint8))),
    ):
        assert torch.equal(chain(images, index=index), expected)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, torch.tensor, np.array])
def test_index_epoch_and_seed_may_be_numbers_of_any_library(kind: Any) -> None:
    image = photo()
    expected = transforms.Compose(classification(), seed=3)(image, index=5, epoch=2)
    chain = transforms.Compose(classification(), seed=kind(3))
    assert torch.equal(chain(image, index=kind(5), epoch=kind(2)), expected)


def test_keys_are_the_draws_of_torch() -> None:
    """In any mode, and in a thread whose first draw is one in inference mode."""
    torch.manual_seed(3)
    expected = [int(torch.empty((), dtype=torch.int64).random_()) for _ in range(4)]
    found: list[int] = []

    def draw() -> None:
        torch.manual_seed(3)
        with torch.inference_mode():
            found.append(fresh_key(None))
        found.append(fresh_key(None))
        with torch.device("cpu"):  # a mode that sees every call
            found.append(fresh_key(None))
        found.append(fresh_key(None))

    thread = threading.Thread(target=draw)
    thread.start()
    thread.join()
    assert found == expected


def test_what_has_one_seed_shares_no_numbers() -> None:
    """As docs and recipes have it: a chain and what mixes its batches, all with seed 0."""
    images = torch.zeros(64, 3, 8, 8)
    labels = torch.arange(64) % 4
    mixing: list[Any] = [
        transforms.MixUp(num_classes=4, seed=0),
        transforms.CutMix(num_classes=4, seed=0),
        transforms.Mosaic((8, 8), seed=0),
        transforms.CopyPaste(seed=0),
    ]
    seeds = {0}
    for own in mixing:
        source = own._source(None, range(64), 3, None)
        seed, epoch, indices = source.key_for(64)
        seeds.add(seed)
        assert (epoch, list(indices)) == (3, list(range(64)))
    assert len(seeds) == 5
    chain = transforms.Compose([transforms.RandomRotation(90)], seed=0)
    angles = chain.make_params(images, index=range(64)).steps[0]["angle"]
    _, params = mixing[0]((images, labels), index=range(64), return_params=True)
    shares = next(iter(params.steps[0].values()))
    assert abs(np.corrcoef(np.argsort(np.argsort(angles)), shares)[0, 1]) < 0.3
