"""The clocks of benchmarks."""

import time
from collections.abc import Callable

import pytest
from bench.harness import Case, Contender, main
from bench.harness.timing import interleave


def wait() -> None:
    time.sleep(0.02)


@pytest.mark.parametrize(
    ("clock", "counted"), [(time.perf_counter, True), (time.process_time, False)]
)
def test_only_the_wall_clock_counts_waiting(clock: Callable[[], float], counted: bool) -> None:
    (timing,) = interleave([wait], min_time=0.001, clock=clock)
    assert (timing.minimum >= 0.02) is counted


def test_cpu_time_is_for_one_thread(capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("group", "label", lambda: [Contender("visops", wait)])
    arguments = ["--cpu-time", "--no-memory", "--threads", "1,2", "--filter", "label"]
    assert main("waiting", "", [case], arguments) == 2
    assert "--cpu-time adds up all threads: use --threads 1" in capsys.readouterr().err


def test_cpu_time_skips_cases_with_workers(capsys: pytest.CaptureFixture[str]) -> None:
    contenders = [Contender("visops", wait)]
    cases = [
        Case("group", "alone", lambda: contenders),
        Case("group", "loader", lambda: contenders, workers=True),
    ]
    assert main("waiting", "", cases, ["--cpu-time", "--threads", "1", "--list"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "cpu/group/alone\n"
    assert shown.err == "--cpu-time skips cpu/group/loader: it has workers\n"
