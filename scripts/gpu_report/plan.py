"""What a report consists of, in an order where every minute tells something new."""

from pathlib import Path

from .steps import ROOT, Step

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SCRIPTS = ROOT / "scripts"
AGREE = str(SCRIPTS / "gpu_report" / "agree.py")
ROWS = str(SCRIPTS / "bench" / "gpu.py")
PARTS = 4  # processes that compare operators
# What nsight-compute reads of the kernels of these rows: how busy memory and issue slots are.
METRICS = (
    "gpu__time_duration.sum",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "smsp__inst_executed.sum",
)
COUNTED = (
    *("warp_affine uint8", "warp_affine float32", "augment NCHW", "antialiased", "roi_align"),
    *("gaussian_blur", "im2col", "attention/float32", "deform_conv2d/", "boxes/nms, 10000"),
)


def cuda_tests() -> list[str]:
    """The test files that have tests for GPUs: collecting all others takes longer than these."""
    files = sorted((ROOT / "tests").glob("*/**/test_*.py"))
    return [str(file) for file in files if "mark.cuda" in file.read_text(encoding="utf-8")]


def all_steps(python: str, out: Path, device: str, processes: int, share: float) -> list[Step]:
    """Every step; `share` makes batches smaller, to rehearse on a CPU."""
    rehearsal = device == "cpu"
    small = ["--device", device, "--share", str(share)]
    quick = ["--seconds", "5"] if rehearsal else ["--seconds", "30"]
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(processes)]
    pytest += ["--continue-on-collection-errors"]  # a package may be missing
    pytest += ["--dist", "loadgroup", "-m", "cuda and not cluster", *cuda_tests()]
    checked = [python, AGREE, "--device", device, "--tries", "2"]
    counted = ["ncu", "--clock-control", "none", "--kernel-name-base", "demangled", "--csv"]
    counted += ["-k", "regex:visops", "--metrics", ",".join(METRICS), "--log-file"]
    counted += [str(out / "counters.csv"), python, ROWS, *small, "--once", "|".join(COUNTED)]
    rows = [python, ROWS, *small, "--no-memory", "--min-time", "0.05"]
    one = {"OMP_NUM_THREADS": "1"}
    return [
        Step("versions", [python, "-m", "visops"], 60, 0),
        Step("chip", ["nvidia-smi"], 30, 0),
        *(
            Step(
                f"agree {part + 1} of {PARTS}",
                [
                    *(python, AGREE, "--device", device, *quick),
                    *("--part", f"{part}/{PARTS}", "--out", str(out / f"agree_{part + 1}.json")),
                ],
                60,
                1,
                one,
            )
            for part in range(PARTS)
        ),
        Step("rows", [*rows, "--json", str(out / "bench_gpu.json")], 180, 2),
        Step("kernels", [python, ROWS, *small, "--kernels"], 60, 3),
        Step("tests", pytest, 130, 4, one),
        *(
            Step(
                tool,
                ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *checked],
                130,
                4,
                {**one, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
            )
            for tool in TOOLS
        ),
        Step("counters", counted, 60, 5),
    ]


def that_fit(steps: list[Step], minutes: float) -> list[Step]:
    """The first steps whose limits, added up by group, stay within the time."""
    kept: list[Step] = []
    left = minutes * 60
    for group in sorted({step.group for step in steps}):
        members = [step for step in steps if step.group == group]
        left -= max(step.seconds for step in members)
        if left < 0:
            break
        kept += members
    return kept
