"""Reports what nvcc made of the CUDA kernels, and what breaks the rules. No GPU is needed.

python scripts/cuda_report             # findings; the exit status is 1 if there is one
python scripts/cuda_report --write     # and update docs/cuda_kernels.md
python scripts/cuda_report --library other/libvisops_cuda.so
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from cuda_report.dump import NotReadableError  # noqa: E402
from cuda_report.gates import (  # noqa: E402
    arithmetic_findings,
    launch_findings,
    resource_findings,
    unused_limits,
)
from cuda_report.kernels import read_library  # noqa: E402
from cuda_report.page import PAGE, page_of, same_build  # noqa: E402


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        "scripts/cuda_report", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--write", action="store_true", help="update docs/cuda_kernels.md")
    parser.add_argument(
        "--library",
        type=Path,
        default=ROOT / "ops" / "lib" / "libvisops_cuda.so",
        help="what to read",
    )
    arguments = parser.parse_args(words)
    try:
        library = read_library(arguments.library)
    except NotReadableError as error:
        raise SystemExit(str(error)) from None
    kernels = library.kernels
    findings = [
        *arithmetic_findings(kernels),
        *launch_findings(kernels),
        *resource_findings(library),
        *unused_limits(library),
    ]
    page = page_of(library)
    if arguments.write:
        PAGE.write_text(page, encoding="utf-8")
    recorded = PAGE.read_text(encoding="utf-8")
    if same_build(library, recorded) and page != recorded:
        findings.append(f"{PAGE.name} is out of date; run: python scripts/cuda_report --write")
    print(f"{len(kernels)} kernels, nvcc {library.compiler}, {len(findings)} findings")
    print(*findings, sep="\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
