"""Plans and manifests: written and read back, torn lines, locks."""

import dataclasses
import hashlib
import json
import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from visops.infer.store.manifest import (
    Commit,
    Manifest,
    committed_batches,
    manifest_paths,
    read_manifest,
)
from visops.infer.store.plan import Entry, Plan, cut_batches
from waiting import LIMIT


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
