"""Runs everything that needs a GPU against an installed wheel, into one page.

    python scripts/gpu_report --wheel dist/visops-0.1.0-py3-none-manylinux_2_34_x86_64.whl
    python scripts/gpu_report --minutes 5 --only rows --again
    python scripts/gpu_report --device cpu --share 0.02          # a rehearsal

Nothing is built or fetched. The wheel is unpacked and put on the path; without --wheel, the visops
that is installed is taken. Steps that have ended are kept in --out: an interrupted run goes on with
the next one. They are run again where the build or the chip has changed, and with --again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from gpu_report.plan import all_steps, that_fit  # noqa: E402
from gpu_report.steps import report_of, run_all  # noqa: E402

# Ran in a process of its own: this one imports neither torch nor visops.
IDENTITY = """
import sys, torch, visops
from pathlib import Path
if sys.argv[1] == "cuda" and not torch.cuda.is_available():
    raise SystemExit("torch sees no CUDA device; a report needs one, and --device cpu rehearses it")
info = visops.build_info()
if not info["cuda_built"]:
    raise SystemExit("visops was built without CUDA; see docs/building.md")
library = Path(visops.__file__).parent / "lib" / "libvisops_cuda.so"
chip = torch.cuda.get_device_name() if sys.argv[1] == "cuda" else "CPU"
print(info["version"], library.stat().st_size, hash(library.read_bytes()), end=", ")
print("torch", torch.__version__, chip, sep=", ")
"""


def put_on_path(wheel: Path, out: Path) -> None:
    """Unpack a wheel, and let this process's children import from it."""
    site = out / "site"
    shutil.rmtree(site, ignore_errors=True)  # of an earlier wheel
    with zipfile.ZipFile(wheel) as files:
        files.extractall(site)
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    )


def identity(device: str) -> str:
    """What results depend on: the build, torch and the chip. Ends the program without a GPU."""
    done = subprocess.run(
        [sys.executable, "-c", IDENTITY, device],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise SystemExit(said[-1])
    return done.stdout.strip()


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 if a step failed or took too long."""
    parser = argparse.ArgumentParser(
        "scripts/gpu_report",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--wheel", type=Path, help="what to test (default: what is installed)")
    parser.add_argument("--minutes", type=float, default=12, help="the first steps that fit in")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu_report")
    parser.add_argument("--only", default="", help="steps whose name contains one of these, by ,")
    parser.add_argument("--again", action="store_true", help="run steps that have ended, too")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--share", type=float, default=1.0, help="of the usual batch sizes")
    parser.add_argument("--processes", type=int, default=12, help="for the tests")
    options = parser.parse_args(words)
    out: Path = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    steps = all_steps(sys.executable, out, options.device, options.processes, options.share)
    wanted = options.only.split(",")
    steps = [step for step in steps if any(word in step.name for word in wanted)]
    if not steps:
        raise SystemExit(f"no step is called {options.only}")
    if options.wheel is not None:
        put_on_path(options.wheel, out)
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"{time.monotonic() - began:5.0f} s  {text}", flush=True)

    build = identity(options.device)
    tell(build)
    planned = that_fit(steps, options.minutes)
    if not planned:
        raise SystemExit(f"no step fits into {options.minutes} minutes")
    results = run_all(planned, out, build, options.again, tell)
    page = out / "gpu_report.md"
    page.write_text(report_of(results), encoding="utf-8")
    print(f"attach {page}")
    return 1 if any(r.status in ("failed", "timed out") for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
