"""What users see of a run: the progress bar, the final table, and advice on speed."""

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from ..store.summary import StageTimes, Summary

LINE_EVERY = 30.0  # seconds between lines where there is no terminal

_ADVICE = {
    "list": "Listing files is the bottleneck: the file system is slow.",
    "decode": (
        "Decoding is the bottleneck: try more --workers while cores are idle, or smaller files; "
        "--annotate, regions and --no-reduced decode large JPEGs at full size."
    ),
    "collate": (
        "Copies to the device are the bottleneck: images are decoded larger than the networks need."
    ),
    "preprocess": (
        "Preprocessing is the bottleneck: a common --size and --fit for all models makes it one "
        "pass; --annotate, regions and --no-reduced hand it whole images."
    ),
    "models": (
        "The networks are the bottleneck: try --channels-last, --autocast bfloat16 where the "
        "device is fast at it, a larger --batch-size on a GPU, or more devices (torchrun, "
        "--engine ray)."
    ),
    "postprocess": (
        "Post-processing is the bottleneck: a higher --score-threshold leaves fewer boxes; "
        "pictures and masks are large."
    ),
    "write": (
        "Writing is the bottleneck: try more --writer-threads or a faster disk; --annotate jpeg is "
        "faster than png, and --masks rle than png."
    ),
}


def table(summary: Summary) -> str:
    """Return the summary of a run as text."""
    counts, lines = summary.counts, []
    if summary.done:
        lines += [*_stage_lines(summary.stages, summary.seconds), ""]
        rate = summary.done / summary.seconds if summary.seconds else 0.0
        before = f", after {summary.starting:.1f} s to start" if summary.starting else ""
        took = f"{summary.done} images in {summary.seconds:.1f} s"
        lines.append(f"{took}: {rate:.1f} images/s{before}")
        if summary.limiting is not None:
            lines.append(advice(summary.limiting.name))
    if summary.retried:
        lines.append(
            f"models that failed on a batch and ran image by image: {summary.retried} times"
        )
    ended = f"{counts.ok} ok, {counts.failed} failed, {counts.skipped} skipped"
    lines.append(f"{counts.listed} listed: {ended}" + _left(summary))
    if counts.failed and summary.results is not None:
        lines.append("failures and their reasons: quarantine.jsonl")
    if summary.results is not None:
        lines.append(f"results: {summary.results}")
    return "\n".join(lines)


def advice(stage: str) -> str:
    """Say what to change if this stage is the bottleneck."""
    return _ADVICE.get(stage, f"{stage} is the bottleneck.")


def _left(summary: Summary) -> str:
    text = f", {summary.pending} left" if summary.pending else ""
    if summary.counts.missing != summary.pending:
        text += f", {summary.counts.missing - summary.pending} UNACCOUNTED FOR"
    if summary.signal is not None:
        text += f"; stopped by {signal.Signals(summary.signal).name}, run again to continue"
    return text


def _stage_lines(stages: Sequence[StageTimes], seconds: float) -> list[str]:
    head = ("stage", "images", "at work", "no input", "no room", "share", "images/s")
    rows = [head]
    for stage in stages:
        share = stage.busy / seconds if seconds else 0.0
        rows.append(
            (
                stage.name,
                str(stage.images),
                f"{stage.busy:.2f} s",
                f"{stage.waiting_input:.2f} s",
                f"{stage.waiting_room:.2f} s",
                f"{share:.0%}",
                f"{stage.rate():.0f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


class Timed(Protocol):
    """Anything with the times of its stages; the last stage completes an item."""

    times: Sequence[StageTimes]


@runtime_checkable
class Busy(Protocol):
    """Anything that also knows how long stages have been at their current batch."""

    def busy(self) -> Sequence[float]:
        """Return each stage's seconds at work, its current batch included."""


class Progress:
    """A bar of images, with each stage's images/s at work and the current bottleneck.

    Where standard error is no terminal, it gets a line every half minute instead.

    Parameters
    ----------
    total, done : int
        Inputs of the plan, and those that earlier runs finished.
    shown : bool
        False shows nothing.
    """

    def __init__(self, total: int, done: int, shown: bool = True) -> None:
        self._bar: Any = None
        self._total, self._done = total, done
        self._before: dict[str, float] = {}
        self._printed = time.monotonic()
        self._prints = shown and not sys.stderr.isatty()
        if shown and not self._prints:
            try:
                from tqdm import tqdm
            except ImportError:
                print(
                    "visops.infer: no progress bar, because tqdm is not installed", file=sys.stderr
                )
                return
            self._bar = tqdm(total=total, initial=done, unit="image", disable=None)

    def tick(self, chain: Timed) -> None:
        """Update the bar, or print a line if it is time for one."""
        has_bar = self._bar is not None and not self._bar.disable
        if not has_bar and not (self._prints and self._is_time()):
            return
        # `times` only grow when a batch ends, which can take a network longer than a tick.
        spent = chain.busy() if isinstance(chain, Busy) else [s.busy for s in chain.times]
        busy = {stage.name: seconds for stage, seconds in zip(chain.times, spent, strict=True)}
        limiting = max(busy, key=lambda name: busy[name] - self._before.get(name, 0.0))
        self._before = busy
        rates = " ".join(f"{stage.name} {stage.rate():.0f}" for stage in chain.times)
        said, done = f"{rates} /s, limits: {limiting}", self._done + chain.times[-1].images
        if not has_bar:
            print(
                f"visops.infer: {done} of {self._total} images, {said}", file=sys.stderr, flush=True
            )
            return
        self._bar.set_postfix_str(said, refresh=False)
        self._bar.n = done
        self._bar.refresh()

    def _is_time(self) -> bool:
        now = time.monotonic()
        if now - self._printed < LINE_EVERY:
            return False
        self._printed = now
        return True

    def close(self) -> None:
        """Close the bar and leave it on the terminal."""
        if self._bar is not None:
            self._bar.close()
