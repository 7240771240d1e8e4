"""What becomes of outputs: classes, raw tensors, JSON, Parquet."""

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from visops.infer import Auto, Classification, Detection, Entry, Raw, Segmentation
from visops.infer.batch import Batch
from visops.infer.frames import Frame
from visops.infer.images.preprocess import Preprocess
from visops.infer.store.parquet import Schema, write_parquet
from visops.infer.store.plan import PlannedBatch
from visops.infer.store.records import batch_records, json_line, plain

PLACEMENTS = [Preprocess((8, 8)).placement(8, 8)] * 2


def test_classification() -> None:
    logits = torch.tensor([[0.0, 2, 1], [3, 3, 3]])
    first, second = Classification(2)(logits, PLACEMENTS)
    assert first["labels"].tolist() == [1, 2]
    weights = np.exp([0, 2, 1])
    np.testing.assert_allclose(first["scores"], (weights / weights.sum())[[1, 2]], rtol=1e-6)
    assert second["labels"].tolist() == [0, 1]
    (kept, _) = Classification(9, softmax=False)(logits.bfloat16(), PLACEMENTS)
    assert kept["scores"].tolist() == [2, 1, 0]


@pytest.mark.parametrize("top_k", [0, -1, 2.5])
def test_top_k_below_1_is_refused(top_k: Any) -> None:
    with pytest.raises(ValueError, match=rf"top_k is {top_k}, must be at least 1"):
        Classification(top_k)


def test_raw() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    assert [item["output"].tolist() for item in Raw()(tensor, PLACEMENTS)] == tensor.tolist()
    found = Raw()({"a": tensor, "b": tensor.bfloat16()[:, 0]}, PLACEMENTS)
    assert found[1]["a"].tolist() == [3, 4, 5]
    assert found[1]["b"] == 3
    found = Raw()([{"a": tensor}, {"a": tensor[0]}], PLACEMENTS)
    assert found[1]["a"].tolist() == [0, 1, 2]


class Heads(NamedTuple):
    near: torch.Tensor
    far: torch.Tensor


def test_raw_of_any_form() -> None:
    rows, one = torch.arange(6.0).reshape(2, 3), torch.tensor([[1], [2]])

    def second(output: Any) -> Any:
        return plain(Raw()(output, PLACEMENTS))[1]

    assert second((rows, one)) == {"output_0": [3, 4, 5], "output_1": [2]}
    assert second(((rows, one), {"a": one})) == {
        "output_0": {"output_0": [3, 4, 5], "output_1": [2]},
        "output_1": {"a": [2]},
    }
    assert second(Heads(rows, one)) == {"near": [3, 4, 5], "far": [2]}
    assert second({"a": {"b": rows}, "c": (one, one), "d": None, "e": torch.tensor(7)}) == {
        "a": {"b": [3, 4, 5]},
        "c": {"output_0": [2], "output_1": [2]},
        "d": None,
        "e": 7,
    }
    # A list has one item per image, of any form and size.
    assert second([rows, one]) == {"output": [[1], [2]]}
    assert second([{}, {"a": (rows[0], "x"), "b": [one, 1.5], "c": Heads(one, one)}]) == {
        "a": {"output_0": [0, 1, 2], "output_1": "x"},
        "b": [[[1], [2]], 1.5],
        "c": {"near": [[1], [2]], "far": [[1], [2]]},
    }
    assert second([1, (rows.bfloat16()[0], 2)]) == {"output_0": [0, 1, 2], "output_1": 2}
    assert second(one.numpy()) == {"output": [2]}


def test_raw_names_outputs_that_do_not_fit_the_batch() -> None:
    with pytest.raises(ValueError, match=r"output is a list of 3 items for 2 images; a list must"):
        Raw()([torch.zeros(2)] * 3, PLACEMENTS)
    with pytest.raises(ValueError, match=r"\['a'\]\['output_1'\] has shape \[3, 4\], its first"):
        Raw()({"a": (torch.zeros(2), torch.zeros(3, 4))}, PLACEMENTS)


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        (torch.zeros(2, 5), Classification),
        (torch.zeros(2), Raw),
        (torch.zeros(2, 3, 4, 4), Raw),
        ({"out": torch.zeros(2, 3, 4, 4)}, Segmentation),
        ({"out": torch.zeros(2, 3)}, Raw),
        ({"boxes": torch.zeros(2, 3, 4), "scores": torch.zeros(2, 3)}, Detection),
        ([{"boxes": torch.zeros(3, 4), "scores": torch.zeros(3)}] * 2, Detection),
        ([{"points": torch.zeros(3, 4)}] * 2, Raw),
        ([{"out": torch.zeros(1, 3, 4, 4)}] * 2, Raw),
        ({"out": [1, 2]}, Raw),
        ((torch.zeros(2, 5), torch.zeros(2, 5)), Raw),
        ((), Raw),
    ],
)
def test_auto(output: Any, kind: Any) -> None:
    assert isinstance(Auto().choose(output), kind)


@given(st.floats(width=32))
def test_floats_have_their_own_digits(value: Any) -> None:
    found = json.loads(json.dumps(plain(np.array([value], np.float32))))[0]
    if math.isfinite(value):
        assert np.float32(found) == np.float32(value)
        assert len(repr(found)) <= len(repr(float(np.float32(value))))
    else:
        assert found is None


def test_plain_values() -> None:
    value = {
        "a": np.float32(0.1),
        "b": np.arange(3),
        "c": [np.float16(0.1), (True, None, "x", float("inf"))],
        5: np.array([[0.1, np.nan]]),
        "d": np.zeros((0, 4), np.float32),
    }
    assert plain(value) == {
        "a": 0.1,
        "b": [0, 1, 2],
        "c": [0.1, [True, None, "x", None]],
        "5": [[0.1, None]],
        "d": [],
    }


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1}, "set"),
        (np.array([{1}]), "set"),
        (np.array([b"x"]), "bytes"),
        (np.array(1j), "complex"),
        (torch.zeros(1), "Tensor"),
    ],
)
def test_values_that_records_cannot_hold_are_named(value: Any, name: str) -> None:
    batch = Batch(PlannedBatch(0, (Entry("a.png"),)), frames=[Frame(0, 0, 1, 1, 1, 1)])
    batch.results = {"net": [{"x": [value]}]}
    with pytest.raises(TypeError, match=f"postprocess of model net: a {name} can't be in a record"):
        batch_records(batch)


def test_records_are_in_the_plans_order() -> None:
    entries = (Entry("a.txt", "skipped", "no"), Entry("b.png"), Entry("c.png"), Entry("\udcff.png"))
    batch = Batch(PlannedBatch(0, entries), frames=[Frame(i, 0, 1, 1, 1, 1) for i in (1, 3)])
    batch.failures = {2: "broken"}
    batch.results = {"net": [{"x": np.float32(0.1)}, {"x": 2}]}
    lines = b"".join(map(json_line, batch_records(batch))).decode("ascii").splitlines()
    assert lines == [
        '{"image":"a.txt","reason":"no","status":"skipped"}',
        '{"image":"b.png","outputs":{"net":{"x":0.1}},"status":"ok"}',
        '{"image":"c.png","reason":"broken","status":"failed"}',
        '{"image":"\\udcff.png","outputs":{"net":{"x":2}},"status":"ok"}',
    ]
    assert os.fsencode(json.loads(lines[3])["image"]) == b"\xff.png"


def to_parquet(path: Any, parts: Any) -> Any:
    schema = Schema()
    for records in parts:
        for record in records:
            schema.add(record)
    with open(path, "wb") as file:
        write_parquet(file, parts, schema)
    return pyarrow.parquet.read_table(path)


def test_parquet_has_a_type_that_fits_all_records(tmp_path: Path) -> None:
    parts = [
        [{"image": "a", "status": "failed", "reason": "x"}],
        [{"image": "b", "status": "ok", "outputs": {"net": {"boxes": [], "n": 1, "none": []}}}],
        [{"image": "c", "status": "ok", "outputs": {"net": {"boxes": [[1, 2.5]], "n": 2.5}}}],
        [{"image": "\udcff", "status": "ok", "outputs": {"two": {"m": [{"size": [1]}]}}}],
    ]
    table = to_parquet(tmp_path / "a.parquet", parts)
    rows = table.to_pylist()
    assert [row["image"] for row in rows] == ["a", "b", "c", "\\xff"]
    assert rows[0]["outputs"] is None
    assert rows[1]["outputs"]["net"] == {"boxes": [], "n": 1.0}
    assert rows[2]["outputs"]["net"] == {"boxes": [[1.0, 2.5]], "n": 2.5}
    assert rows[3]["outputs"]["two"] == {"m": [{"size": [1]}]}
    assert pyarrow.parquet.ParquetFile(tmp_path / "a.parquet").num_row_groups == 4


def test_parquet_holds_any_text(tmp_path: Path) -> None:
    """Undecodable names also occur in paths of pictures and in reasons."""
    outputs = {"net": {"picture": "p/\udcff.jpg", "names": ["\udcfe", "caf\xe9", "\ud800"]}}
    parts = [
        [{"image": "a", "outputs": outputs, "reason": "no file \udcff"}],
        [{"image": "\udcff"}],
    ]
    rows = to_parquet(tmp_path / "a.parquet", parts).to_pylist()
    assert rows[0]["reason"] == "no file \\xff"
    assert rows[0]["outputs"]["net"] == {
        "picture": "p/\\xff.jpg",
        "names": ["\\xfe", "caf\xe9", "\\ud800"],
    }
    assert rows[1]["image"] == "\\xff"


def test_parquet_of_nothing_but_failures(tmp_path: Path) -> None:
    table = to_parquet(
        tmp_path / "a.parquet", [[{"image": "a", "status": "failed", "reason": "x"}]]
    )
    assert table.column_names == ["image", "reason", "status"]
    assert len(to_parquet(tmp_path / "b.parquet", [])) == 0


def test_values_without_a_common_type(tmp_path: Path) -> None:
    parts = [[{"image": "a", "x": 1}], [{"image": "a", "x": [1]}]]
    with pytest.raises(TypeError, match='records can\'t be Parquet: x is "int" in some and'):
        to_parquet(tmp_path / "a.parquet", parts)
