"""The manifest: a line for every batch whose outputs are safe; lines are appended, never changed.

Why JSON lines and not SQLite: every writer has its own file, so processes need no lock between
them; appending and syncing a line works on network file systems, where the shared memory of
SQLite's write-ahead log does not; any tool can read it. The weak point is a line torn by a crash:
the reader ignores it and the next writer cuts it off.
"""

import glob
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from .durable import LockedFile, named, sync_folder
from .plan import Plan


@dataclass(frozen=True, slots=True)
class Commit:
    """One line: a batch that is done, the file of its records, and their number by status.

    `plan` is the digest of the batch in its plan; "" matches any plan.
    """

    batch: int
    part: str
    size: int
    sha256: str
    ok: int
    failed: int
    skipped: int
    plan: str = ""


class Manifest:
    """The only writer of a manifest file.

    Opening it takes a lock that ends with the process, cuts off a torn last line, and makes the
    file's name durable.

    Raises
    ------
    RuntimeError
        Another process is writing this file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = LockedFile(path)
        try:
            try:
                self._file.lock()
            except BlockingIOError:
                raise RuntimeError(
                    f"visops.infer: another process is writing {path}; "
                    "wait for it to end, or choose another folder"
                ) from None
            with open(path, "rb") as file:
                whole = file.read()
            self._file.truncate(whole.rfind(b"\n") + 1)
            sync_folder(os.path.dirname(path))
        except BaseException:
            self._file.close()
            raise

    def append(self, commit: Commit) -> None:
        """Append a line, and wait until it is on the disk."""
        line = json.dumps(asdict(commit), sort_keys=True).encode() + b"\n"
        try:
            self._file.append(line)
        except OSError as error:
            raise named(error, self.path) from error

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    def __enter__(self) -> "Manifest":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def read_manifest(path: str) -> dict[int, Commit]:
    """Read the complete lines of one manifest, by batch; the last line of a batch counts."""
    return {commit.batch: commit for commit in _lines(path)}


def _lines(path: str) -> Iterator[Commit]:
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return
    for number, line in enumerate(lines[:-1], 1):  # what follows the last newline is torn
        try:
            commit = Commit(**json.loads(line))
        except (TypeError, ValueError) as error:
            raise ValueError(f"visops.infer: {path}, line {number} is damaged: {error}") from error
        yield commit


def committed_batches(out: str, plan: Plan) -> dict[int, Commit]:
    """Return the plan's batches that any manifest lists as done and whose parts exist.

    Lines of another plan don't count. If a batch was done twice, for example because its part was
    lost, the line that matches the existing part counts.
    """
    digests = {batch.number: batch.digest for batch in plan.batches}
    commits: dict[int, Commit] = {}
    for commit in (commit for path in manifest_paths(out) for commit in _lines(path)):
        if commit.plan not in ("", digests.get(commit.batch)) or not _is_there(out, commit):
            continue
        before = commits.get(commit.batch)
        if before is None or (before.sha256 != commit.sha256 and _holds(out, commit)):
            commits[commit.batch] = commit
    return commits


def commits_by_digest(out: str) -> dict[tuple[int, str], Commit]:
    """Return all lines whose parts exist, of any plan, by batch and digest."""
    lines = (commit for path in manifest_paths(out) for commit in _lines(path))
    return {(line.batch, line.plan): line for line in lines if _is_there(out, line)}


def _is_there(out: str, commit: Commit) -> bool:
    try:
        return os.path.getsize(os.path.join(out, commit.part)) == commit.size
    except OSError:
        return False


def _holds(out: str, commit: Commit) -> bool:
    with open(os.path.join(out, commit.part), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == commit.sha256


def manifest_paths(out: str) -> list[str]:
    """Return all manifests in a folder of outputs: manifest.jsonl and those of ranks."""
    return sorted(glob.glob(os.path.join(glob.escape(out), "manifest*.jsonl")))
