"""The bar and the table: the bottleneck, and no empty lines."""

import threading
import time
from typing import Any

import pytest
from visops.infer import Counts, Summary
from visops.infer.engine.stages import Chain, Stage
from visops.infer.store.summary import StageTimes
from visops.infer.view.report import Progress, advice, table
from waiting import until


class Bar:
    """Stands in for tqdm, without a terminal."""

    disable = False
    n = 0
    said = ""

    def set_postfix_str(self, text: str, refresh: bool) -> None:
        self.said = text

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def bar() -> Any:
    progress = Progress(10, 2, shown=False)
    progress._bar = Bar()
    return progress


class Fixed:
    """Stages with given times."""

    def __init__(self, **busy: float) -> None:
        self.times = [StageTimes(name, 1, 3, spent) for name, spent in busy.items()]


def test_the_bar_names_the_busiest_stage_since_the_last_tick(bar: Any) -> None:
    chain = Fixed(decode=5.0, models=1.0)
    bar.tick(chain)
    assert bar._bar.said == "decode 1 models 3 /s, limits: decode"
    assert bar._bar.n == 5
    chain.times[1].busy = 1.5
    bar.tick(chain)
    assert bar._bar.said.endswith("limits: models")


def test_the_current_batch_counts_as_work_in_the_bar(bar: Any) -> None:
    """A network may take seconds per batch, and its time stands still during most ticks."""

    class Working(Fixed):
        now = (1.0, 1.0)

        def busy(self) -> Any:
            return self.now

    chain = Working(decode=1.0, models=1.0)
    bar.tick(chain)
    chain.times[0].busy = 1.1
    chain.now = (1.1, 1.5)
    bar.tick(chain)
    assert bar._bar.said.endswith("limits: models")


def test_a_chain_reports_the_time_of_current_batches(bar: Any) -> None:
    """A network takes seconds per batch, but the bar looks at stages every half second."""
    release = threading.Event()

    def network(item: int) -> int:
        release.wait(60)
        return item

    chain: Chain[int] = Chain(
        ("decode", iter(range(3))),
        [Stage("models", network)],
        room=1,
        size=lambda item: 1,
        number=lambda item: item,
    )
    chain.start()
    try:
        until(lambda: chain.busy()[1] > 0.05)
        for _ in range(3):
            time.sleep(0.02)
            bar.tick(chain)
            assert bar._bar.said.endswith("limits: models")
        assert chain.times[1].busy == 0
    finally:
        release.set()
        chain.wait()
    assert chain.busy() == [stage.busy for stage in chain.times]


def test_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """A log gets a line now and then instead of a bar."""
    now = [100.0]
    monkeypatch.setattr("visops.infer.view.report.time.monotonic", lambda: now[0])
    progress, silent = Progress(10, 2), Progress(10, 2, shown=False)
    chain: Any = Fixed(decode=5.0, models=1.0)
    for seconds in (0.5, 29.0, 0.5, 0.5, 29.4, 0.2):
        now[0] += seconds
        progress.tick(chain)
        silent.tick(chain)
    progress.close()
    line = "visops.infer: 5 of 10 images, decode 1 models 3 /s, limits: decode"
    assert capsys.readouterr().err.splitlines() == [line, line]


def test_the_table_counts_starting_apart() -> None:
    stages = [StageTimes("decode", 4, 40, 1.0, first=10), StageTimes("models", 4, 40, 3.0)]
    summary = Summary(Counts(listed=40, ok=40), done=40, seconds=4.0, starting=6.0, stages=stages)
    text = table(summary)
    assert "40 images in 4.0 s: 10.0 images/s, after 6.0 s to start" in text
    assert advice("models") in text
    assert [line.split()[-1] for line in text.splitlines()[1:3]] == ["30", "13"]
    for stage in stages:  # one batch says nothing about speed
        stage.batches = 1
    assert "bottleneck" not in table(summary)


def test_the_table_has_no_empty_lines() -> None:
    text = table(Summary(Counts(listed=3, ok=1, failed=1), pending=1))
    assert text == "3 listed: 1 ok, 1 failed, 0 skipped, 1 left"
    text = table(Summary(Counts(listed=2, ok=1, failed=1), results="out/results.jsonl"))
    assert text.splitlines()[1:] == [
        "failures and their reasons: quarantine.jsonl",
        "results: out/results.jsonl",
    ]


@pytest.mark.parametrize("stage", ["decode", "preprocess"])
def test_advice_does_not_suggest_defaults(stage: str) -> None:
    assert " --reduced" not in advice(stage)
    assert advice("other") == "other is the bottleneck."
