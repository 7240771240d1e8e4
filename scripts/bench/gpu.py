"""The operators on a GPU, against torch, torchvision and the memory.

Every row has a bound beside the peers: a copy that reads and writes as many bytes as the job must
(each input read once, each result written once). Its ratio is the share of the memory's speed that
the kernel reaches. Where files are loaded, it is our own chain on the CPU instead. Times are of
CUDA events, so they hold what Python and the launches cost where the GPU waits for them.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # so that `bench` is a package

import torch
from bench.chip import boxes, convolutions, loading, masks, regions, samples, traced, warps
from bench.harness import Case, main


def all_cases(device: str, share: float) -> list[Case]:
    """Every row; `share` makes batches smaller, to rehearse on a CPU."""
    return [
        row
        for family in (warps, boxes, regions, samples, convolutions, masks, loading)
        for row in family.cases(device, share)
    ]


def command_line(words: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a rehearsal")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual batch sizes")
    parser.add_argument("--kernels", action="store_true", help="time the kernels of ours instead")
    parser.add_argument("--once", help="for profilers: ours, in rows with these words, by |")
    own, others = parser.parse_known_args(words)
    if own.device == "cuda" and not torch.cuda.is_available():
        print("torch sees no CUDA device: nothing to time", file=sys.stderr)
        return 0
    torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa are another job
    cases = all_cases(own.device, own.share)
    if own.kernels:
        return traced.trace(cases, own.device)
    if own.once:
        for row in cases:
            if any(word in row.key for word in own.once.split("|")):
                row.build()[0].call()
        return 0
    if own.device == "cpu" or own.share != 1:
        others = [*others, "--no-memory"]  # the process that measures it gets neither option
    return main("gpu", __doc__ or "", cases, others)


if __name__ == "__main__":
    sys.exit(command_line(sys.argv[1:]))
