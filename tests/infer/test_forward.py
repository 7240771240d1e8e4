"""Networks that raise: the image at fault, the other images, and what stays in memory."""

import weakref
from typing import Any

import pytest
import torch
from visops.infer import Model, Options, Preprocess
from visops.infer.batch import Batch
from visops.infer.engine.work import Work
from visops.infer.frames import Frame
from visops.infer.models.forward import forward
from visops.infer.store.plan import Entry, PlannedBatch

from infer.folders import Refusing

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
