"""Outputs on the disk: files of a batch, written by a pool of threads, then its line in the manifest."""

from __future__ import annotations

import hashlib
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from .batch import Batch
from .durable import write_atomically
from .manifest import Commit, Manifest
from .records import batch_records, json_line
from .stages import StageError

__all__ = ["Committer", "part_name", "write_batch"]


def part_name(number: int, format: str) -> str:
    """Return where a batch's records are, relative to the outputs."""
    return f"parts/part-{number:08d}.{format}"


def write_batch(out: str, batch: Batch, format: str) -> Commit:
    """Write all of a batch's files; return the line that may go into the manifest then."""
    records = batch_records(batch)
    data = b"".join(map(json_line, records))
    part = part_name(batch.number, format)
    write_atomically(os.path.join(out, part), data)
    counts = {status: 0 for status in ("ok", "failed", "skipped")}
    for record in records:
        counts[record["status"]] += 1
    digest = hashlib.sha256(data).hexdigest()
    return Commit(batch.number, part, len(data), digest, **counts)


class Committer:
    """The last stage: batches are written side by side, and committed in order.

    Parameters
    ----------
    out : str
        The folder of outputs, with its folder of parts.
    manifest : Manifest
    pool : ThreadPoolExecutor
    format : str
    room : int
        Batches that may be unfinished when another one comes.
    """

    def __init__(
        self, out: str, manifest: Manifest, pool: ThreadPoolExecutor, format: str, room: int
    ) -> None:
        self._out, self._manifest, self._pool, self._format = out, manifest, pool, format
        self._room = room
        self._pending: deque[tuple[int, Future[Commit]]] = deque()
        self.commits: list[Commit] = []

    def add(self, batch: Batch) -> Batch:
        """Start writing a batch; commit those that are done."""
        future = self._pool.submit(write_batch, self._out, batch, self._format)
        self._pending.append((batch.number, future))
        while self._pending and (len(self._pending) > self._room or self._pending[0][1].done()):
            self._commit()
        return batch

    def finish(self) -> None:
        """Commit what is left."""
        while self._pending:
            self._commit()

    def _commit(self) -> None:
        number, future = self._pending.popleft()
        try:
            commit = future.result()
            self._manifest.append(commit)
        except Exception as error:
            raise StageError("write", number, error) from error
        self.commits.append(commit)
