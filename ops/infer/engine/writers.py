"""Writes a batch's files with a pool of threads, then its line in the manifest."""

import os
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from ..batch import Batch, Picture
from ..store.durable import make_folders, sync_below, write_atomically
from ..store.manifest import Commit, Manifest
from ..store.records import batch_records, write_part
from ..view.drawing import encode
from .stages import StageError


def write_batch(out: str, batch: Batch) -> Commit:
    """Write all files of a batch; return the line that may now go into the manifest."""
    for picture in batch.pictures:
        write_picture(out, picture)
    sync_pictures(out, batch.pictures)
    return _write_records(out, batch)


def write_picture(out: str, picture: Picture) -> None:
    """Draw, encode and write a picture; the caller syncs its folder."""
    path = os.path.join(out, picture.path)
    make_folders(os.path.dirname(path), sync=False)
    write_atomically(path, encode(picture), sync_parent=False)


def sync_pictures(out: str, pictures: Iterable[Picture]) -> None:
    """Make the names of pictures durable, and those of their folders."""
    sync_below(out, {os.path.dirname(picture.path) for picture in pictures})


def _write_records(out: str, batch: Batch) -> Commit:
    return write_part(out, batch.plan, batch_records(batch))


@dataclass
class _Unfinished:
    """A batch whose files are being written."""

    number: int
    pictures: list[Picture]
    written: list[Future[None]]
    part: Future[Commit]

    def done(self) -> bool:
        return self.part.done() and all(future.done() for future in self.written)


class Committer:
    """The last stage: writes files in parallel, and commits batches in order.

    Parameters
    ----------
    out : str
        The folder of outputs, with its folder of parts.
    manifest : Manifest
    pool : ThreadPoolExecutor
    room : int
        Batches that may be unfinished when the next one comes.
    """

    def __init__(self, out: str, manifest: Manifest, pool: ThreadPoolExecutor, room: int) -> None:
        self._out, self._manifest, self._pool, self._room = out, manifest, pool, room
        self._unfinished: deque[_Unfinished] = deque()
        self.commits: list[Commit] = []

    def add(self, batch: Batch) -> Batch:
        """Start writing a batch; commit those that are finished."""
        written = [
            self._pool.submit(write_picture, self._out, picture) for picture in batch.pictures
        ]
        part = self._pool.submit(_write_records, self._out, batch)
        self._unfinished.append(_Unfinished(batch.number, batch.pictures, written, part))
        while self._unfinished and (
            len(self._unfinished) > self._room or self._unfinished[0].done()
        ):
            self._commit()
        return batch

    def finish(self) -> None:
        """Commit the remaining batches."""
        while self._unfinished:
            self._commit()

    def _commit(self) -> None:
        batch = self._unfinished.popleft()
        try:
            for future in batch.written:
                future.result()
            sync_pictures(self._out, batch.pictures)
            commit = batch.part.result()
            self._manifest.append(commit)
        except Exception as error:
            raise StageError("write", batch.number, error) from error
        self.commits.append(commit)
