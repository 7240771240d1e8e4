"""Plans, manifests and descriptions: written and read back, torn lines, what is durable when."""

import dataclasses
import hashlib
import json
import multiprocessing
import os
import sys
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import fresh
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from visops import infer
from visops.infer import Auto, Detection, Entry, Model, Preprocess
from visops.infer.batch import Batch, Picture
from visops.infer.engine.writers import write_batch
from visops.infer.frames import Frame
from visops.infer.models.describe import describe
from visops.infer.models.model import weights_digest
from visops.infer.store import durable
from visops.infer.store.durable import make_folders, sync_below
from visops.infer.store.manifest import (
    Commit,
    Manifest,
    committed_batches,
    manifest_paths,
    read_manifest,
)
from visops.infer.store.plan import Plan, PlannedBatch, cut_batches
from waiting import LIMIT

from infer.described import Fields, Own, over
from infer.folders import Network, save


def entries(text: str) -> list[Entry]:
    """Return an input per letter: i is an image, s is skipped."""
    return [
        Entry(f"{n}.png") if letter == "i" else Entry(f"{n}.txt", "skipped", "no image")
        for n, letter in enumerate(text)
    ]


@given(st.text("is", max_size=40), st.integers(1, 5))
def test_batches_hold_each_input_once_and_at_most_batch_size_images(text: str, size: Any) -> None:
    listed = entries(text)
    batches = cut_batches(listed, size, first=3)
    assert [entry for batch in batches for entry in batch.entries] == listed
    assert [batch.number for batch in batches] == list(range(3, 3 + len(batches)))
    images = [sum(entry.status is None for entry in batch.entries) for batch in batches]
    assert all(count == size for count in images[:-1])
    assert all(count <= size for count in images)


def test_plans_survive_the_disk(tmp_path: Path) -> None:
    plan = Plan({"a": [1, {"b": None}]}, images="/\udcff")
    plan.extend([*entries("isi"), Entry("\udcff.png"), Entry("日本\n.png")], 2)
    plan.save(str(tmp_path / "plan.jsonl"))
    assert Plan.load(str(tmp_path / "plan.jsonl")) == plan
    assert Plan.load(str(tmp_path / "none.jsonl")) is None


def test_new_inputs_come_after_the_old_ones() -> None:
    plan = Plan({})
    plan.extend(entries("iii"), 2)
    before = list(plan.batches)
    assert plan.extend([Entry("-1.png"), *entries("iiii")], 2) == 2
    assert plan.batches[: len(before)] == before
    assert [e.path for e in plan.batches[-1].entries] == ["-1.png", "3.png"]
    assert plan.extend(entries("iii"), 2) == 0


@pytest.mark.parametrize("text", ["", "{}\n", "[]\n", '{"visops_plan": 99}\n', "nonsense\n"])
def test_files_that_are_not_plans(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.jsonl").write_text(text)
    with pytest.raises(ValueError, match="is not a plan of this version"):
        Plan.load(str(tmp_path / "plan.jsonl"))


def test_other_options_are_refused() -> None:
    plan = Plan({"batch_size": 8, "models": {"net": {"weights": "ab", "source": "x"}}})
    plan.check(dict(plan.options), "out")
    message = "visops.infer: batch_size is 4, but the outputs in out were begun with 8; resume"
    with pytest.raises(ValueError, match=message):
        plan.check({**plan.options, "batch_size": 4}, "out")
    other = {**plan.options, "models": {"net": {"weights": "cd", "source": "x"}}}
    with pytest.raises(ValueError, match=r"net=weights=cd, .* begun with net=weights=ab;"):
        plan.check(other, "out")


def commit(number: int) -> Commit:
    return Commit(number, f"parts/{number}", 1, "00", 1, 0, 0)


def test_manifests_append(tmp_path: Path) -> None:
    path = str(tmp_path / "manifest.jsonl")
    with Manifest(path) as manifest:
        manifest.append(commit(0))
    with Manifest(path) as manifest:
        manifest.append(commit(1))
    assert read_manifest(path) == {0: commit(0), 1: commit(1)}
    assert read_manifest(str(tmp_path / "none")) == {}


@pytest.mark.parametrize("torn", [b'{"batch": 1, "fai', b"{", b"\0\0\0"])
def test_a_torn_line_is_left_out_and_cut_off(tmp_path: Path, torn: bytes) -> None:
    path = tmp_path / "manifest.jsonl"
    with Manifest(str(path)) as manifest:
        manifest.append(commit(0))
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert read_manifest(str(path)) == {0: commit(0)}
    with Manifest(str(path)) as manifest:
        assert path.read_bytes() == whole
        manifest.append(commit(2))
    assert read_manifest(str(path)) == {0: commit(0), 2: commit(2)}


def test_damage_within_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "manifest.jsonl"
    path.write_bytes(b"{}\n")
    with pytest.raises(ValueError, match=r"manifest.jsonl, line 1 is damaged"):
        read_manifest(str(path))


def write(path: str, said: Connection) -> None:
    """Open a manifest in another process, and send what that raises."""
    try:
        Manifest(path).close()
        said.send("")
    except RuntimeError as error:
        said.send(str(error))


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "manifest.jsonl")
    context = multiprocessing.get_context("fork")
    with Manifest(path):
        with pytest.raises(RuntimeError, match=r"another process is writing .*manifest.jsonl"):
            Manifest(path)
        here, there = context.Pipe()
        child = context.Process(target=write, args=(path, there))
        child.start()
        assert here.poll(LIMIT)
        assert "another process is writing" in here.recv()
        child.join()
    Manifest(path).close()


def test_manifests_of_several_ranks_are_found(tmp_path: Path) -> None:
    for name, number in (("manifest.jsonl", 0), ("manifest.rank-00001.jsonl", 5)):
        line = json.dumps(dataclasses.asdict(commit(number)))
        (tmp_path / name).write_text(line + "\n")
    found = manifest_paths(str(tmp_path))
    assert [list(read_manifest(path)) for path in found] == [[0], [5]]


def test_digests_depend_on_inputs_and_options() -> None:
    def digests(text: str, options: Any, images: str = "") -> list[str]:
        plan = Plan(options, images=images)
        plan.extend(entries(text), 2)
        return [batch.digest for batch in plan.batches]

    first, second = digests("iii", {"a": 1})
    assert first != second
    assert digests("iii", {"a": 1}) == [first, second]
    assert digests("iiii", {"a": 1})[0] == first
    assert digests("iiii", {"a": 1})[1] != second
    assert not {first, second} & {*digests("iii", {"a": 2}), *digests("iii", {"a": 1}, "b")}


def test_lines_of_other_plans_and_of_missing_parts_do_not_count(tmp_path: Path) -> None:
    """The part is the last run's, but an outdated line may be in the manifest read last."""
    plan = Plan({})
    plan.extend(entries("i" * 6), 1)
    (tmp_path / "parts").mkdir()

    def line(number: int, text: bytes, digest: str) -> Commit:
        sha256 = hashlib.sha256(text).hexdigest()
        return Commit(number, f"parts/{number}", len(text), sha256, 1, 0, 0, digest)

    own = [batch.digest for batch in plan.batches]
    lines = {
        "manifest.jsonl": [
            line(0, b"new", own[0]),
            line(1, b"new", own[1]),
            line(2, b"old", own[2]),
            line(3, b"new", "0" * 16),
            line(4, b"new", ""),
            line(9, b"new", own[0]),
        ],
        "manifest.rank-00000.jsonl": [
            line(0, b"old", own[0]),
            line(1, b"shorter or longer", own[1]),
            line(2, b"new", own[2]),
            line(5, b"old", own[5]),
        ],
    }
    for name, commits in lines.items():
        with Manifest(str(tmp_path / name)) as manifest:
            for commit in commits:
                manifest.append(commit)
    for number in range(5):
        (tmp_path / "parts" / str(number)).write_bytes(b"new")
    found = committed_batches(str(tmp_path), plan)
    new, none = hashlib.sha256(b"new").hexdigest(), ""
    assert {number: commit.sha256 for number, commit in found.items()} == dict.fromkeys(
        (0, 1, 2, 4), new
    )
    assert {number: commit.plan for number, commit in found.items()} == {
        **{number: own[number] for number in (0, 1, 2)},
        4: none,
    }


def said(value: Any) -> str:
    return describe(value, weights_digest)


def plain(output: Any, placements: Any) -> Any:
    return [{} for _ in placements]


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a: Any) -> None:
        self.a = a


MAKERS: list[Any] = [
    lambda: plain,
    lambda: over(0.5),
    lambda: over(0.6),
    lambda: partial(over, threshold=0.5),
    lambda: partial(plain, 3),
    lambda: Own(0.5),
    lambda: Own(0.6),
    lambda: Own(0.5, plain),
    lambda: Own(0.5, Own(0.5)),
    lambda: Own(0.5).__call__,
    lambda: Own(0.6).__call__,
    lambda: Own(0.5, (1, "a", None)),
    lambda: partial(plain, {"a": [Own(1), (2, {3})]}),
    lambda: partial(plain, {"a": [Own(1), (2, {4})]}),
    lambda: Own(0.5, torch.tensor([1.0, 2.0])),
    lambda: Own(0.5, np.array([1.0, 3.0])),
    lambda: Own(0.5, Network(0)),
    lambda: Own(0.5, Network(1)),
    lambda: Fields(plain),
    lambda: Fields(Own(0.5)),
    lambda: Slotted(1),
    lambda: Slotted(2),
    lambda: Auto(detection=over(0.5)),
    lambda: Auto(detection=Detection(0.3)),
    lambda: Own,
    lambda: len,
]


def test_equal_objects_have_equal_descriptions_and_others_do_not() -> None:
    names = [said(make()) for make in MAKERS]
    assert names == [said(make()) for make in MAKERS]
    assert len(set(names)) == len(names)
    assert not any("0x" in name for name in names)


def test_objects_with_a_repr_keep_it() -> None:
    assert said(Auto()) == repr(Auto())
    assert said(plain) == "infer.test_plan.plain"


def test_collections_in_closures_are_left_out() -> None:
    calls: list[int] = []
    own = Own(0.5, calls)

    def counting(output: Any, placements: Any) -> Any:
        calls.append(1)

    before = said(counting), said(own)
    counting(None, None)
    assert (said(counting), said(own)) == before


def test_objects_that_refer_to_each_other() -> None:
    own = Own(0.5)
    own.inner = own
    assert said(own).count("Own") < 20


PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
from infer.described import Fields, Own, over
from visops.infer import Model
for postprocess in (over(0.5), Own(0.5, frozenset('abc')), Fields({"c", "a", "b"})):
    print(Model("net", len, postprocess=postprocess).fingerprint()["postprocess"])
"""


def test_descriptions_are_equal_in_another_process() -> None:
    printed = fresh.run(PROGRAM, *sys.path, check=True).stdout
    here = [over(0.5), Own(0.5, frozenset("abc")), Fields({"c", "a", "b"})]
    named = [Model("net", len, postprocess=one).fingerprint()["postprocess"] for one in here]
    assert printed.splitlines() == named


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the folders that are synced."""
    folders: list[str] = []
    sync = durable.sync_folder

    def listed(folder: str) -> None:
        folders.append(os.path.normpath(folder))
        sync(folder)

    monkeypatch.setattr(durable, "sync_folder", listed)
    return folders


def test_folders_in_between_are_synced_once(tmp_path: Path, synced: list[str]) -> None:
    for folder in ("a/b", "a/c", "d"):
        (tmp_path / folder).mkdir(parents=True)
    sync_below(str(tmp_path), ["a/b", "a/c", "d"])
    assert sorted(synced) == [str(tmp_path / name) for name in ("", "a", "a/b", "a/c", "d")]
    synced.clear()
    sync_below(str(tmp_path), [])
    assert not synced


@pytest.mark.parametrize("relative", [False, True])
def test_new_folders_are_synced_in_their_parents(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch, relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    top = "" if relative else str(tmp_path)
    for _ in range(2):
        make_folders(os.path.join(top, "a", "b", "c"))
    assert sorted(synced) == [
        os.path.normpath(os.path.join(top, name)) for name in ("", "a", "a/b")
    ]
    assert (tmp_path / "a" / "b" / "c").is_dir()


def test_folders_of_pictures_are_synced(tmp_path: Path, synced: list[str]) -> None:
    save(tmp_path / "images" / "deep" / "er" / "0.png")
    options: dict[str, Any] = {"workers": 0, "preprocess": Preprocess((8, 8)), "annotate": "png"}
    infer.run(tmp_path / "images", tmp_path / "out", {"net": Network()}, **options)
    pictures = {str(tmp_path / "out" / name) for name in ("annotated", "annotated/deep")}
    assert {*pictures, str(tmp_path), str(tmp_path / "out")} <= set(synced)


def batch(*pictures: str) -> Any:
    entries = (Entry("a.png"), Entry("b.png"), Entry("c.txt", "skipped", "no"))
    pixels = torch.zeros(3, 4, 5, dtype=torch.uint8)
    return Batch(
        PlannedBatch(7, entries, "digest"),
        frames=[Frame(0, 0, 4, 5, 4, 5)],
        failures={1: "broken"},
        results={"net": [{"x": 1}]},
        pictures=[Picture(path, pixels) for path in pictures],
    )


def test_commits_hold_the_digest_of_their_plan(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    commit = write_batch(str(tmp_path), batch())
    assert (commit.batch, commit.ok, commit.failed, commit.skipped) == (7, 1, 1, 1)
    assert commit.plan == "digest"
    assert commit.size == (tmp_path / commit.part).stat().st_size


def test_batches_of_another_plan_are_done_again(tmp_path: Path) -> None:
    """This holds even if plan.jsonl, which would refuse other options, is gone."""
    for i in range(5):
        save(tmp_path / "images" / f"{i}.png", i)
    options: dict[str, Any] = {"workers": 0, "batch_size": 2}
    results = []
    for seed in (0, 1):
        infer.run(tmp_path / "images", tmp_path / "out", {"net": Network(seed)}, **options)
        results.append((tmp_path / "out" / "results.jsonl").read_bytes())
        (tmp_path / "out" / "plan.jsonl").unlink()
    alone = tmp_path / "alone"
    infer.run(tmp_path / "images", alone, {"net": Network(1)}, **options)
    assert results[1] == (alone / "results.jsonl").read_bytes() != results[0]


def test_folders_made_for_pictures_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So are the folders above: a synced folder is lost if its own name is not durable."""
    (tmp_path / "parts").mkdir()
    synced: list[str] = []
    monkeypatch.setattr(
        durable, "sync_folder", lambda folder: synced.append(os.path.relpath(folder, tmp_path))
    )
    write_batch(
        str(tmp_path), batch("annotated/a/b/x.png", "annotated/a/b/y.png", "pictures/z.jpg")
    )
    before_the_part = synced[: synced.index("parts")]
    assert sorted(before_the_part) == [".", "annotated", "annotated/a", "annotated/a/b", "pictures"]
