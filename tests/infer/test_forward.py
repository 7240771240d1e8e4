"""Networks that raise, and second networks on regions."""

import pickle
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import visops
from PIL import Image
from torch import Tensor
from visops import infer
from visops.infer import Detection, Model, Options, Preprocess, Regions
from visops.infer.batch import Batch
from visops.infer.engine.work import Work
from visops.infer.frames import Frame
from visops.infer.models.forward import forward
from visops.infer.store.plan import Entry, PlannedBatch

from infer.folders import Detector, Network, Refusing, files, records, save

SIZE = Preprocess((4, 4), mean=None, std=None)
PLACEMENT = SIZE.placement(4, 4)


def batch_of(count: Any) -> Any:
    plan = PlannedBatch(0, tuple(Entry(f"{i}.png") for i in range(count)))
    return Batch(plan, frames=[Frame(i, 0, 4, 4, 4, 4) for i in range(count)])


def results(network: Any, count: int, postprocess: Any = None) -> Any:
    """Return the results for a batch of grey images, 0, 10, 20 and so on."""
    model = Model("net", network, **({} if postprocess is None else {"postprocess": postprocess}))
    work = Work("", [model], Options(workers=0, preprocess=SIZE))
    batch = batch_of(count)
    batch.images = [torch.full((3, 4, 4), 10 * i, dtype=torch.uint8) for i in range(count)]
    batch = work.postprocess(work.forward(work.preprocess(batch)))
    return batch, batch.results["net"]


def test_a_culprit_is_found_and_the_others_go_on() -> None:
    inputs = torch.rand(5, 3, 4, 4) * 0.5
    inputs[3] = 1
    batch = batch_of(5)
    assert forward(Model("net", Refusing()), inputs, [PLACEMENT] * 5, batch, worked=False)
    done = batch.outputs["net"]
    assert [rows for _, rows in done.parts] == [[0], [1], [2], [4]]
    found = torch.cat([output for output, _ in done.parts])
    torch.testing.assert_close(found, inputs[[0, 1, 2, 4]].mean((2, 3)))
    assert batch.failures == {3: "model net: ArithmeticError: too bright"}
    assert batch.retried == 1
    forward(Model("two", Refusing()), inputs, [PLACEMENT] * 5, batch)
    assert batch.failures[3] == (
        "model net: ArithmeticError: too bright; model two: ArithmeticError: too bright"
    )


def ragged(batch: Any) -> Any:
    """Return dense outputs whose number of columns depends on the brightest image of the batch."""
    columns = int((batch * 255).amax() / 10) + 1
    return {"boxes": batch.new_zeros(len(batch), columns, 4), "mean": batch.mean((1, 2, 3))}


def pair(batch: Any) -> Any:
    return batch.mean((1, 2, 3)), {"size": torch.tensor(batch.shape[-1])}


def levels(batch: Any) -> Any:
    return [batch.mean((2, 3)), batch.mean((1, 2))]


def listed(batch: Any) -> Any:
    return [{"mean": image.mean()} for image in batch]


def mean_of(output: Any, placements: Any) -> Any:
    """Return the mean of each image, whatever the form."""
    if isinstance(output, list) and isinstance(output[0], dict):
        return [{"mean": float(item["mean"])} for item in output]
    if isinstance(output, list):
        assert len(output) == 2, "levels of a pyramid, and no images"
    first = output["mean"] if isinstance(output, dict) else output[0]
    assert len(first) == len(placements)
    return [{"mean": float(row.mean())} for row in first]


@pytest.mark.parametrize("network", [ragged, pair, levels, listed])
def test_outputs_of_any_form_go_one_by_one(network: Any) -> None:
    def too_large(batch: Any) -> Any:
        if len(batch) > 1:
            raise torch.OutOfMemoryError("out of memory")
        return network(batch)

    batch, found = results(too_large, 3, mean_of)
    assert (batch.retried, batch.failures) == (1, {})
    wanted = [i * 10 / 255 for i in range(3)]
    assert [item["mean"] for item in found] == pytest.approx(wanted)
    assert [item["mean"] for item in results(network, 3, mean_of)[1]] == pytest.approx(wanted)


def test_nothing_of_the_failed_batch_is_kept_for_the_retry() -> None:
    """Activations large enough for memory to run out."""
    kept: list[Any] = []

    class Activations:
        pass

    def network(batch: Any) -> Any:
        alive = [one for one in kept if one() is not None]
        activations = Activations()
        kept.append(weakref.ref(activations))
        if alive:
            raise AssertionError("memory is held")
        if len(batch) > 1 or batch.mean() == 0:
            raise torch.OutOfMemoryError("out of memory")
        return batch.mean((2, 3))

    batch, _ = results(network, 3)
    assert batch.failures == {0: "model net: OutOfMemoryError: out of memory"}


def test_a_model_that_has_never_worked_stops_the_run() -> None:
    def network(batch: Any) -> Any:
        raise ValueError(f"expected 224 x 224, got {tuple(batch.shape)}")

    message = (
        r"model net has never worked, and raises on each of 2 images; .*shape \[1, 3, 4, 4\] "
        r"and dtype torch.float32. On the first image: ValueError: expected 224 x 224, got \(1, 3"
    )
    with pytest.raises(RuntimeError, match=message) as caught:
        results(network, 2)
    assert isinstance(caught.value.__cause__, ValueError)
    # With a single image, the image may be at fault.
    batch, _ = results(network, 1)
    assert list(batch.failures) == [0]


def test_a_model_that_has_worked_once_goes_on() -> None:
    batch = batch_of(3)
    work = Work("", [Model("net", Refusing())], Options(workers=0, preprocess=SIZE))
    for white in (False, True):
        batch = batch_of(3)
        batch.images = [torch.full((3, 4, 4), 255 * white, dtype=torch.uint8)] * 3
        batch = work.postprocess(work.forward(work.preprocess(batch)))
        assert sorted(batch.failures) == ([0, 1, 2] if white else [])


def test_reasons_are_cut() -> None:
    def network(batch: Any) -> Any:
        if len(batch) > 1 or batch.mean() == 0:
            raise ValueError("no " * 10_000)
        return batch.mean((2, 3))

    batch, _ = results(network, 2)
    assert len(batch.failures[0]) < 600
    assert batch.failures[0].startswith("model net: ValueError: no no ")
    assert batch.failures[0].endswith("...")


def test_a_lost_device_stops_everything() -> None:
    def network(batch: Any) -> Any:
        raise torch.AcceleratorError("device-side assert")

    with pytest.raises(torch.AcceleratorError):
        forward(Model("net", network), torch.rand(2, 3, 4, 4), [PLACEMENT] * 2, batch_of(2))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([], "postprocess of model net returned 0 results for 2 images"),
        ([{}, [1]], "postprocess of model net returned a list for an image, must be a dict"),
    ],
)
def test_results_of_post_processing_are_checked(returned: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        results(lambda batch: batch, 2, lambda output, placements: returned)


def test_errors_of_post_processing_name_the_model() -> None:
    def postprocess(output: Any, placements: Any) -> Any:
        raise KeyError("scores")

    with pytest.raises(RuntimeError, match="postprocess of model net: KeyError: 'scores'"):
        results(lambda batch: batch, 2, postprocess)


def test_pictures_are_tensors() -> None:
    """A string or number called "picture" is a value like any other."""
    batch, found = results(lambda b: b, 1, lambda output, placements: [{"picture": "a landscape"}])
    assert (batch.pictures, found) == ([], [{"picture": "a landscape"}])
    wide = torch.zeros(3, 1, 65_501, dtype=torch.uint8)
    batch, found = results(lambda b: b, 1, lambda output, placements: [{"picture": wide}])
    assert [picture.path for picture in batch.pictures] == [found[0]["picture"]]
    assert found[0]["picture"] == "pictures/net/0.png.png", "a JPEG can't be that wide"


OPTIONS: dict[str, Any] = {"batch_size": 4, "workers": 0}
DETECTION = Detection(0.3, 0.5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("images")
    for i in range(6):
        save(path / f"{i}.png", i, 48 + i, 64)
    return path


def detector() -> Any:
    return Model("detector", Detector(), Preprocess((64, 64)))


def pixels(path: Any) -> Any:
    with Image.open(path) as image:
        return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def test_each_box_has_a_record(folder: Path, tmp_path: Path) -> None:
    seen = []

    class Second(Network):
        def forward(self, batch: Any) -> Any:
            seen.append(batch)
            return super().forward(batch)

    def postprocess(output: Any, placements: Any) -> Any:
        assert {(placement.height, placement.full_width) for placement in placements} == {(12, 10)}
        return [
            found
            for found, _ in zip(infer.Classification()(output, placements), placements, strict=True)
        ]

    regions = Regions(
        "regions",
        detector(),
        Second(),
        (12, 10),
        detection=DETECTION,
        postprocess=postprocess,
        batch_size=3,
    )
    infer.run(folder, tmp_path, [regions, detector()], **OPTIONS)
    assert max(len(batch) for batch in seen) == 3
    mean, std = (torch.tensor(v)[:, None, None] for v in (infer.IMAGENET_MEAN, infer.IMAGENET_STD))
    for name, record in records(tmp_path).items():
        found = record["outputs"]["regions"]
        boxes = torch.tensor(found["boxes"]).reshape(-1, 4)
        assert len(found["regions"]) == len(boxes) == len(found["scores"]) > 0
        rows = torch.nn.functional.pad(boxes, (1, 0))
        patches = visops.crop_rois(pixels(folder / name)[None], rows, (12, 10))
        scores = Network()((patches.float() / 255 - mean) / std).softmax(1)
        for wanted, region in zip(scores, found["regions"], strict=True):
            torch.testing.assert_close(
                torch.tensor(region["scores"]), wanted[region["labels"]], atol=1e-5, rtol=0
            )


@pytest.mark.parametrize("blend", ["replace", "feather"])
def test_pictures_are_pasted_back(folder: Path, tmp_path: Path, blend: Any) -> None:
    regions = Regions(
        "negative",
        detector(),
        lambda patches: 1 - patches,
        (12, 10),
        detection=DETECTION,
        paste=blend,
    )
    options = OPTIONS | {"annotate": "png"}
    infer.run(folder, tmp_path / "a", [regions], **options)
    infer.run(folder, tmp_path / "b", [regions], **(options | {"workers": 2}))
    assert files(tmp_path / "a") == files(tmp_path / "b")
    for name, record in records(tmp_path / "a").items():
        found = record["outputs"]["negative"]
        assert found["picture"] == f"pictures/negative/{name}.png"
        image = pixels(folder / name)[None]
        rows = torch.nn.functional.pad(torch.tensor(found["boxes"]), (1, 0))
        patches = 255 - visops.crop_rois(image, rows, (12, 10))
        wanted = visops.paste_rois(image, patches, rows, blend=blend)
        assert torch.equal(pixels(tmp_path / "a" / found["picture"]), wanted[0])
        assert not torch.equal(wanted, image)


@pytest.mark.parametrize("paste", [None, "replace"])
def test_images_in_which_nothing_is_found(folder: Path, tmp_path: Path, paste: Any) -> None:
    regions = Regions("r", detector(), Network(), (8, 8), detection=Detection(2.0), paste=paste)
    infer.run(folder, tmp_path, [regions], **OPTIONS)
    for name, record in records(tmp_path).items():
        found = record["outputs"]["r"]
        assert found["boxes"] == []
        if paste is None:
            assert found["regions"] == []
        else:
            with (
                Image.open(tmp_path / found["picture"]) as picture,
                Image.open(folder / name) as image,
            ):
                assert picture.size == image.size


def test_a_culprit_among_regions_fails_its_image(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "2.png").write_bytes((folder / "2.png").read_bytes())
    seen: list[torch.Tensor] = []

    def keep(patches: torch.Tensor) -> torch.Tensor:
        seen.append(patches)
        return patches.mean((2, 3))

    regions = Regions("r", detector(), keep, (8, 8))
    infer.run(tmp_path / "one", tmp_path / "seen", [regions], **OPTIONS)
    marked = seen[0].mean()
    calls: list[int] = []

    def failing(patches: torch.Tensor) -> torch.Tensor:
        calls.append(len(patches))
        if len(calls) == 1:
            raise torch.OutOfMemoryError("too many")
        if (patches.mean() - marked).abs() < 1e-6:
            raise ArithmeticError("that one")
        return patches.mean((2, 3))

    regions = Regions("r", detector(), failing, (8, 8))
    summary = infer.run(folder, tmp_path / "out", [regions], **OPTIONS)
    assert (summary.counts.ok, summary.counts.failed) == (5, 1)
    assert records(tmp_path / "out")["2.png"]["reason"] == "model r: ArithmeticError: that one"


def test_both_networks_are_checked_on_resumption(folder: Path, tmp_path: Path) -> None:
    def regions(seed: int, size: tuple[int, int] = (8, 8)) -> Regions:
        return Regions("r", detector(), Network(seed), size)

    infer.run(folder, tmp_path, [regions(0)], **OPTIONS)
    with pytest.raises(ValueError, match="models is r=second=weights="):
        infer.run(folder, tmp_path, [regions(1)], **OPTIONS)
    with pytest.raises(ValueError, match="models is r=options=size=9"):
        infer.run(folder, tmp_path, [regions(0, (9, 8))], **OPTIONS)


def found_by(**options: Any) -> Any:
    own = options.pop("own", None)
    model = Model("detector", Detector(), **({} if own is None else {"postprocess": own}))
    return Regions("r", model, Network(), (8, 8), **options).detection


def test_contradicting_detections_are_refused() -> None:
    """Once, the detector's own post-processing was ignored."""
    own, other = Detection(0.4), Detection(0.6)
    assert found_by() == Detection()
    assert found_by(own=own) == found_by(own=infer.Auto(detection=own)) == own
    assert found_by(own=own, detection=own) == own
    model = detector()
    regions = Regions("r", model, Network(), (8, 8), detection=own)
    assert regions.detector.postprocess == own  # for detectors with thresholds of their own
    assert model.postprocess == infer.Auto()
    assert found_by(detection=other) == found_by(own=Detection(), detection=other) == other
    for contrary in (own, infer.Auto(detection=own)):
        with pytest.raises(
            ValueError, match=r"must be omitted or equal that of detector detector, D"
        ):
            found_by(own=contrary, detection=other)
    with pytest.raises(TypeError, match=r"detector detector is Raw\(\), must be a Detection for r"):
        found_by(own=infer.Raw())


@pytest.mark.parametrize("paste", [None, "replace"])
def test_a_second_network_that_loses_regions(paste: Any) -> None:
    """Every region gets its own result: once, results went to other boxes or images."""
    images = [torch.zeros(3, 64, 64, dtype=torch.uint8)] * 2
    placements = [Preprocess((64, 64)).placement(64, 64)] * 2
    for batch_size in (3, 64):
        regions = Regions(
            "r",
            detector(),
            (lambda patches: patches) if paste is None else (lambda patches: patches[1:]),
            (8, 8),
            postprocess=one_too_few,
            detection=Detection(0.3),
            paste=paste,
            batch_size=batch_size,
        )
        what = "postprocess" if paste is None else "network"
        with pytest.raises(ValueError, match=rf"the second {what} of r returned \d results for \d"):
            regions.forward(torch.zeros(2, 3, 64, 64), images, placements)


def test_a_picture_keeps_its_own_pixels_only() -> None:
    """A view would keep the batch in memory, and be sent to other processes with all of it."""
    flat = torch.zeros(5, 64, 64, 3, dtype=torch.uint8)
    images = [image.permute(2, 0, 1) for image in flat]
    placements = [Preprocess((64, 64)).placement(64, 64)] * 5
    for threshold in (0.3, 2.0):
        regions = Regions(
            "r",
            detector(),
            lambda patches: patches,
            (8, 8),
            detection=Detection(threshold),
            paste="replace",
        )
        output = regions.forward(torch.zeros(5, 3, 64, 64), images, placements)
        for found in regions.postprocess(output, placements):
            assert len(pickle.dumps(found["picture"])) < 2 * 64 * 64 * 3


def one_too_few(output: Any, placements: Any) -> list[dict[str, Any]]:
    """A post-processing that loses a result."""
    return [{}] * (len(placements) - 1)


def test_weights_are_hashed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing the weights of a large network takes seconds."""
    second, state = Network(), Network().state_dict
    hashed = []

    def counted() -> Any:
        hashed.append(1)
        return state()

    monkeypatch.setattr(second, "state_dict", counted)
    Regions("r", detector(), second, (8, 8)).fingerprint()
    assert len(hashed) == 1


@pytest.mark.parametrize("paste", [None, "replace"])
def test_none_means_no_normalisation(paste: Any) -> None:
    """As in Preprocess; what is left out depends on `paste`."""
    seen: list[Tensor] = []

    def second(patches: Tensor) -> Tensor:
        seen.append(patches)
        return patches

    values = torch.full((1, 3, 8, 8), 51, dtype=torch.uint8)
    for options, expected in (
        ({"mean": None, "std": None}, 0.2),
        ({"mean": None, "std": (0.5, 0.5, 0.5)}, 0.4),
        ({"mean": (0.1, 0.1, 0.1), "std": None}, 0.1),
        ({}, (0.2 - infer.IMAGENET_MEAN[0]) / infer.IMAGENET_STD[0] if paste is None else 0.2),
    ):
        regions = Regions("r", detector(), second, (8, 8), paste=paste, **options)
        regions._second(values)
        torch.testing.assert_close(seen[-1][0, 0, 0, 0].item(), expected, rtol=1e-6, atol=1e-7)
        if options.get("mean", "") is None:
            given = infer.Preprocess((8, 8), **options)
            assert (given.mean, given.std) == (options["mean"], options["std"])


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="paste is 'glue', must be one of"):
        Regions("r", detector(), Network(), (8, 8), paste="glue")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r'mean is \(0, 0\), must be 3 numbers, or None or "auto"'):
        Regions("r", detector(), Network(), (8, 8), mean=(0, 0))
    with pytest.raises(ValueError, match=r"std of regions is .*, must have no 0"):
        Regions("r", detector(), Network(), (8, 8), std=(1, 0, 1))
    with pytest.raises(ValueError, match="reduced is True, but regions"):
        infer.Pipeline([Regions("r", detector(), Network(), (8, 8))], reduced=True)
