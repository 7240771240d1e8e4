"""The cases of scripts/bench/augment.py: contenders do the same job, and would be caught if not."""

import warnings

import pytest
import torch

for package in ("albumentations", "kornia", "simplejpeg", "skimage", "sklearn"):
    pytest.importorskip(package)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers, at their import
    from bench.augment import all_cases
    from bench.harness import Case, Contender
    from bench.harness.report import Cell, Row, summary

    from scripts.bench_contenders import check_contenders


# Those of a DataLoader start workers and compare means only.
CASES = [case for case in all_cases() if case.quick and case.memory and case.device == "cpu"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
@pytest.mark.filterwarnings("ignore")
def test_contenders_agree(case: Case) -> None:
    check_contenders(case)


def test_bound_is_not_lost() -> None:
    names = ("ours", "bound", "bound with floor", "peer")
    cells = [
        Cell(names[0], min_s=1.0, median_s=1.0, ratio=1.0),
        Cell(names[1], min_s=0.5, median_s=0.5, ratio=0.5, bound=True),
        Cell(names[2], min_s=0.7, median_s=0.7, ratio=0.7, bound=True, floor=0.8),
        Cell(names[3], min_s=0.9, median_s=0.9, ratio=0.9),
    ]
    assert [cell.verdict for cell in cells[1:]] == ["", "BELOW", "LOST"]
    row = Row("group", "label", "cpu", 1, cells)
    assert row.best == 0.9
    assert "lost (ratio below 1): 1" in summary([row])


def test_case_hands_its_settings_on() -> None:
    def build(value: int) -> list[Contender]:
        return [Contender("ours", lambda: torch.tensor(value))]

    from bench.harness import case

    made = case("group", "label", build, 3, threads=1, memory=False, images=8)
    assert int(made.build()[0].output()) == 3
    assert (made.threads, made.memory, made.images) == (1, False, 8)
