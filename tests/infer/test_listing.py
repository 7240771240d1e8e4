"""Listing a folder: order, links, loops, names, and files that are not images."""

import os
from pathlib import Path
from typing import Any

import pytest
from visops.infer import Entry, list_images

from infer.folders import nested, recursion_limit, save


def paths(folder: Path) -> list[str]:
    return [entry.path for entry in list_images(folder)]


def test_order_is_that_of_bytes(tmp_path: Path) -> None:
    names = ["a/b.png", "a.png", "a-b.png", "B.png", "é.png", "a/a/a.png", "z.png", "日本.png"]
    for name in names:
        save(tmp_path / name)
    assert paths(tmp_path) == sorted(names, key=os.fsencode)


@pytest.mark.parametrize("folder", ["", "deep/"])
def test_order_of_bytes_is_not_that_of_text(tmp_path: Path, folder: str) -> None:
    """A byte that is no UTF-8 sorts above an emoji, but its text, a surrogate, sorts below."""
    names = [b"\xf0\x9f\x98\x80.jpg", b"\xff.jpg"]
    texts = [folder + os.fsdecode(name) for name in names]
    assert sorted(texts) != texts
    (tmp_path / folder).mkdir(exist_ok=True)
    for text in texts:
        (tmp_path / text).write_bytes(b"")
    assert paths(tmp_path) == texts


def test_the_first_of_two_links_goes_by_bytes(tmp_path: Path) -> None:
    save(tmp_path / "outside" / "b.png")
    (tmp_path / "images").mkdir()
    first, second = "😀", os.fsdecode(b"\xff")
    for name in (second, first):
        (tmp_path / "images" / name).symlink_to(tmp_path / "outside")
    assert paths(tmp_path / "images") == [f"{first}/b.png"]


def test_folders_within_each_other(tmp_path: Path) -> None:
    depth = 300
    with nested(tmp_path / "images", depth) as inner, recursion_limit(depth):
        (inner / "a.png").write_bytes(b"")
        (tmp_path / "images" / "z.png").write_bytes(b"")
        assert paths(tmp_path / "images") == ["d/" * depth + "a.png", "z.png"]


def test_a_path_that_is_too_long_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["x" * 200] * 19
    with nested(tmp_path / "images", 0):
        monkeypatch.chdir(tmp_path / "images")
        for name in names:
            os.mkdir(name)
            os.chdir(name)
        os.mkdir("y" * 250)
        monkeypatch.undo()
        (failed,) = list_images(tmp_path / "images")
    assert failed == Entry(
        "/".join([*names, "y" * 250]), "failed", "folder can't be listed: File name too long"
    )


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    with open(os.path.join(os.fsencode(tmp_path), b"\xff\xfe.jpg"), "wb") as file:
        file.write(b"x")
    (entry,) = list_images(tmp_path)
    assert os.fsencode(entry.path) == b"\xff\xfe.jpg"


def test_other_files_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "README").write_text("")
    os.mkfifo(tmp_path / "pipe.jpg")
    save(tmp_path / "A.JPEG", format="jpeg")
    assert list_images(tmp_path) == [
        Entry("A.JPEG"),
        Entry("README", "skipped", "a name without a suffix"),
        Entry("notes.txt", "skipped", ".txt is no image's suffix"),
        Entry("pipe.jpg", "skipped", "not a regular file"),
    ]


def test_links(tmp_path: Path) -> None:
    images = tmp_path / "images"
    save(images / "real" / "a.png")
    save(tmp_path / "outside" / "b.png")
    (images / "real" / "loop").symlink_to(images)
    (images / "a_first").symlink_to(images / "real")
    (images / "one").symlink_to(tmp_path / "outside")
    (images / "two").symlink_to(tmp_path / "outside")
    (images / "file.png").symlink_to(tmp_path / "outside" / "b.png")
    (images / "nothing.png").symlink_to("nowhere")
    # A folder under its own name, else its first link; files under each of their names.
    assert paths(images) == ["file.png", "nothing.png", "one/b.png", "real/a.png"]


def test_links_to_each_other_end(tmp_path: Path) -> None:
    for a, b in ("xy", "yx"):
        (tmp_path / a).mkdir()
        (tmp_path / a / "to").symlink_to(tmp_path / b)
        save(tmp_path / a / "i.png")
    assert paths(tmp_path) == ["x/i.png", "y/i.png"]


def test_links_to_themselves(tmp_path: Path) -> None:
    for a, b in (("c", "d"), ("d", "c"), ("a.jpg", "a.jpg")):
        (tmp_path / a).symlink_to(b)
    assert list_images(tmp_path) == [
        Entry("a.jpg"),
        Entry("c", "skipped", "a name without a suffix"),
        Entry("d", "skipped", "a name without a suffix"),
    ]


def test_outputs_below_are_left_out(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    save(tmp_path / "out" / "annotated" / "a.png.jpg")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    listed = list_images(tmp_path, leave_out=tmp_path / "out")
    assert [entry.path for entry in listed] == ["a.png"]


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path / "a.png")
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert list_images(tmp_path) == [
        Entry("a.png"),
        Entry("closed", "failed", "folder can't be listed: Permission denied"),
    ]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list_images(tmp_path / "none")
