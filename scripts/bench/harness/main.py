"""Runs the cases of a benchmark: its command line."""

import argparse
import itertools
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from tqdm import tqdm

from . import kernels, memory, report
from .contender import Case, Contender, compare
from .timing import interleave, set_threads


def run_case(
    case: Case, threads: int, min_time: float, clock: Callable[[], float] = time.perf_counter
) -> report.Row:
    """Compare, then time, the contenders of one case."""
    set_threads(threads)
    contenders = case.contenders()
    reference = contenders[0].output()
    timed: list[Contender] = contenders[:1]
    cells = {c.name: report.Cell(c.name, bound=c.bound) for c in contenders}
    for contender in contenders[1:]:
        difference = compare(reference, contender.output())
        cell = cells[contender.name]
        cell.max_abs, cell.mean_abs = difference.max_abs, difference.mean_abs
        if difference.within(contender.tolerance):
            timed.append(contender)
    del reference
    calls = [c.call for c in timed]
    timings = interleave(calls, min_time=min_time, device=case.device, clock=clock)
    for contender, timing in zip(timed, timings, strict=True):
        cell = cells[contender.name]
        cell.min_s, cell.median_s = timing.minimum, timing.median
        cell.ratio = timing.minimum / timings[0].minimum
    return report.Row(
        group=case.group,
        label=case.label,
        device=case.device,
        threads=threads,
        cells=list(cells.values()),
        facts={} if case.images is None else {"images": case.images},
    )


def _threads(case: Case, asked: Sequence[int]) -> Sequence[int]:
    if case.threads is not None:
        return [case.threads]
    # The threads of the host do not matter to a kernel on the device.
    return asked if case.device == "cpu" else asked[:1]


def _profile(cases: Sequence[Case], path: Path) -> None:
    """Trace five calls of every contender of every case chosen."""
    from torch.profiler import ProfilerActivity, profile, record_function

    activities = [ProfilerActivity.CPU]
    if any(case.device != "cpu" for case in cases):
        activities.append(ProfilerActivity.CUDA)
    built = [(case, contender) for case in cases for contender in case.contenders()]
    for _, contender in built:
        contender.call()
    with profile(activities=activities, record_shapes=True, profile_memory=True) as profiler:
        for case, contender in built:
            with record_function(f"{case.key}: {contender.name}"):
                for _ in range(5):
                    contender.call()
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=30))
    path.parent.mkdir(parents=True, exist_ok=True)
    profiler.export_chrome_trace(str(path))
    print(f"trace: {path} (open in https://ui.perfetto.dev or chrome://tracing)")


def _parser(op: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"scripts/bench {op}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a subset, in less than a minute")
    add(
        "--threads",
        type=lambda text: [int(part) for part in text.split(",")],
        default=sorted({1, torch.get_num_threads()}),
        help="thread counts to run at, such as 1,2 (default: 1 and all)",
    )
    add(
        "--filter",
        action="append",
        default=[],
        metavar="TEXT",
        help="only cases whose device/group/label contains TEXT; several must all match",
    )
    where = f"docs/benchmarks/{op}_<chip>.json, for whole runs only"
    add("--json", type=Path, metavar="PATH", help=f"result file (default: {where})")
    spent = "seconds to spend on each contender of a row (default: 0.2; 0.1 with --quick)"
    add("--min-time", type=float, help=spent)
    add("--no-memory", action="store_true", help="skip the memory measurement")
    clock = "time what the process computes, not the wall clock: where other programs run"
    add("--cpu-time", action="store_true", help=clock)
    devices = ("cpu", "cuda")
    add("--device", choices=devices, default="cpu", help="cuda: the cases that run there")
    kernels_help = "only ours: what each row launches, and host's time"
    add("--kernels", action="store_true", help=kernels_help)
    add("--list", action="store_true", help="print the cases and stop")
    add("--profile", action="store_true", help="write a torch.profiler trace")
    add("--memory-child", action="store_true", help=argparse.SUPPRESS)
    return parser


def main(
    op: str, description: str, cases: Sequence[Case], argv: Sequence[str] | None = None
) -> int:
    """Command line of a benchmark; returns the exit status.

    Parameters
    ----------
    op
        Name of the operator, which is that of the module and of its result files.
    description
        What the table compares; printed above it and by ``--help``.
    cases
        All cases. Groups should be contiguous, since each gets a table of its own.
    argv
        Arguments, those of the command line by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = _parser(op, description).parse_args(arguments)
    if options.device == "cuda":
        torch.backends.cudnn.allow_tf32 = False  # ten bits of mantissa are another job
        cases = [replace(case, device="cuda") if case.on_cuda else case for case in cases]
        if not torch.cuda.is_available() and not options.list:
            print("torch sees no CUDA device: nothing to time", file=sys.stderr)
            return 0
    chosen = [
        case
        for case in cases
        if case.device == options.device
        if (case.quick or not options.quick) and all(part in case.key for part in options.filter)
    ]
    if not chosen and options.device == "cuda" and not options.filter:
        return 0
    if not chosen:
        print("no case matches; --list prints them all", file=sys.stderr)
        return 2
    if options.cpu_time and list(options.threads) != [1]:
        print("--cpu-time adds up all threads: use --threads 1", file=sys.stderr)
        return 2
    if options.cpu_time:  # what other processes compute would not count
        skipped = [case for case in chosen if case.workers]
        chosen = [case for case in chosen if not case.workers]
        for case in skipped:
            print(f"--cpu-time skips {case.key}: it has workers", file=sys.stderr)
    if options.list:
        print("\n".join(case.key for case in chosen))
        return 0
    if options.memory_child:
        memory.child([(case.key, case.device, case.contenders) for case in chosen if case.memory])
        return 0
    if options.kernels:
        return kernels.trace(chosen)
    if options.profile:
        set_threads(max(options.threads))
        _profile(chosen, Path("out") / f"bench_{op}_trace.json")
        return 0

    extra = {} if options.no_memory else memory.measure([sys.argv[0], op], arguments)
    machine = report.machine_facts()
    clock = time.perf_counter
    if options.cpu_time:
        clock, machine["clock"] = time.process_time, "CPU time, beside other programs"
    print(f"{description.strip()}\n\n{report.describe(machine)}")
    rows: list[report.Row] = []
    runs = [
        (case, threads)
        for _, group in itertools.groupby(chosen, key=lambda case: (case.device, case.group))
        for case in group
        for threads in _threads(case, options.threads)
    ]
    min_time = options.min_time or (0.1 if options.quick else 0.2)
    failed = 0
    began = time.perf_counter()
    with tqdm(runs, unit="row", leave=False, disable=None) as bar:
        table = report.Table(bar.write)
        for case, threads in bar:
            try:
                row = run_case(case, threads, min_time, clock)
            except Exception:  # one row's fault is no reason to lose the others
                bar.write(f"{case.key} failed:\n{traceback.format_exc()}", file=sys.stderr)
                failed += 1
                continue
            for cell in row.cells:
                cell.extra_bytes = extra.get(f"{case.key}/{cell.name}")
            rows.append(row)
            table.add(row)
    print(f"\n{report.summary(rows)}\n{time.perf_counter() - began:.0f} s")
    whole = not (options.quick or options.filter)
    path = options.json or (report.default_path(op, machine, rows) if whole else None)
    if path is not None:
        report.write_json(path, op, description, machine, rows)
        print(f"wrote {path}")
    return 1 if failed else 0
