"""The command: options, what it prints, exit status, signals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from visops import infer
from visops.infer import command
from visops.infer.arguments import parser
from visops.infer.command import main

from infer.folders import Network, files, fill, records, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fill(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = str(tmp_path_factory.mktemp("models") / "net.pt")
    torch.jit.trace(Network(), torch.rand(2, 3, 16, 16)).save(path)
    return path


@pytest.fixture
def arguments(folder: Path, model: Any, tmp_path: Path) -> Any:
    out = str(tmp_path / "out")
    common = ["--images", str(folder), "--out", out, "--models", model, "--size", "16"]
    return [*common, "--batch-size", "4", "--workers", "0"]


def test_a_run(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--top-k", "2", "--annotate"]) == 0
    printed = capsys.readouterr().out
    assert "19 listed: 13 ok, 4 failed, 2 skipped\n" in printed
    assert "failures and their reasons: quarantine.jsonl" in printed
    assert " the bottleneck: " in printed
    for stage in ["list", "decode", "collate", "preprocess", "models", "postprocess", "write"]:
        assert f"\n{stage} " in printed
    found = records(tmp_path / "out")
    assert len(found["01.jpg"]["outputs"]["net"]["labels"]) == 2
    assert (tmp_path / "out" / "annotated" / "01.jpg.jpg").exists()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["counts"] == {"listed": 19, "ok": 13, "failed": 4, "skipped": 2}
    assert main([*arguments, "--top-k", "2", "--annotate"]) == 0
    assert "images/s" not in capsys.readouterr().out


def test_masks(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nets = tmp_path / "nets.py"
    nets.write_text("from infer.folders import Masked as masked\n")
    arguments += ["--models", f"{nets}:masked", "--size", "48x64", "--score-threshold", "0"]
    assert main([*arguments, "--masks", "png"]) == 0
    placement = records(tmp_path / "out")["01.jpg"]["outputs"]["masked"]["masks"]
    assert placement == "masks/masked/01.jpg.png"
    assert (tmp_path / "out" / placement).read_bytes().startswith(b"\x89PNG")
    assert main(arguments) == 1
    assert "masks is rle, but the outputs in" in capsys.readouterr().err


def test_dry_run(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--dry-run"]) == 0
    assert "19 listed: 0 ok, 0 failed, 0 skipped, 19 left" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def test_random_weights_are_asked_for(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--images", str(folder), "--out", str(tmp_path / "out"), "--dry-run"]
    options += ["--models", "squeezenet1_1"]
    assert main(options) == 1
    assert (
        "visops.infer: weights is None for squeezenet1_1, must be a folder with squeezenet1_1.pth, "
        "or 'random' for random ones"
    ) in capsys.readouterr().err
    assert main([*options, "--weights", "random"]) == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--models", "resnet19"], "visops.infer: 'resnet19' is neither a torchvision model"),
        (["--images", "/none"], "visops.infer: images is /none: there is no such folder or file"),
        (["--models", "none.pt"], "visops.infer: there is no model file none.pt"),
        (
            ["--models", "alexnet", "--weights", "/none"],
            "there are no weights for alexnet: no file",
        ),
        (["--batch-size", "0"], "visops.infer: batch_size is 0, must be at least 1"),
        (["--device", "cuda:77"], "visops.infer: "),
        (["--annotate", "--reduced"], "visops.infer: reduced is True, but regions and annotations"),
    ],
)
def test_errors(
    arguments: list[str], capsys: pytest.CaptureFixture[str], changes: Any, message: str
) -> None:
    assert main([*arguments, *changes]) == 1
    assert message in capsys.readouterr().err


def test_changed_options_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 0
    assert main([*arguments, "--top-k", "1"]) == 1
    assert "models is net=postprocess=" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--size", "0"],
        ["--size", "1x2x3"],
        ["--format", "csv"],
        ["--masks", "jpeg"],
        ["--ray-networks", "0"],
        [],
    ],
)
def test_wrong_usage(wrong: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--out", str(tmp_path), *wrong])
    assert caught.value.code == 2


def test_help_describes_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = capsys.readouterr().out
    actions = parser()._actions
    assert len(actions) > 25
    for action in actions:
        assert action.help, action.option_strings
        for option in action.option_strings:
            assert re.search(rf"(^|[\s,\[]){option}\b", printed), option


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (["--help"], 0, "usage: python -m visops.infer"),
        (["--out", "x", "--sise", "3"], 2, "unrecognized arguments: --sise 3"),
        (["--out", "x"], 2, "--images and --models are required"),
    ],
)
def test_arguments_are_parsed_before_anything_slow_is_imported(
    given: list[str], status: int, said: str
) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "visops.infer", *given]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines}
    assert "argparse" in imported
    assert not {name for name in imported if name.partition(".")[0] in SLOW_TO_IMPORT}
    assert said in done.stdout + done.stderr


SLOW_TO_IMPORT = ("torch", "torchvision", "numpy", "PIL", "pyarrow", "ray", "tqdm")


@pytest.mark.parametrize("command", [["-mvisops.infer"], ["-c", "import visops", "-m"]])
def test_other_commands_are_left_alone(command: list[str]) -> None:
    """Only `-m visops.infer` is the command, in any of its forms."""
    done = subprocess.run(
        [sys.executable, *command, "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert ("usage:" in done.stdout) == (command == ["-mvisops.infer"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--engine", "ray", "--profile"], "--profile has no effect with --engine ray"),
        (["--engine", "ray", "--writer-threads", "4"], "--writer-threads has no effect with --eng"),
        (["--engine", "ray", "--workers", "0"], "--workers is 0, must be at least 1 with --engine"),
        (["--ray-address", "auto"], "--ray-address has no effect without --engine ray"),
        (["--ray-networks", "2"], "--ray-networks has no effect without --engine ray"),
        (["--weights", "/none"], "weights is '/none', must be None for"),
        (["--top-k", "0"], "top_k is 0, must be"),
        (["--top-k", "-1"], "top_k is -1, must be"),
        (["--max-detections", "-1"], "max_detections is -1, must be"),
        (["--iou-threshold", "1.5"], "iou_threshold is 1.5, must be"),
    ],
)
def test_useless_and_impossible_options_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str], changes: Any, message: str
) -> None:
    if "ray" in changes:
        arguments = arguments[:-2]  # not --workers 0
    assert main([*arguments, *changes]) == 1
    assert f"visops.infer: {message}" in capsys.readouterr().err


def test_ranks_have_no_trace(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    assert main([*arguments, "--profile"]) == 1
    assert "--profile has no effect under torchrun: leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ImportError, TypeError, RuntimeError])
def test_errors_of_merging_are_printed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: type[Exception],
) -> None:
    def merge(*_: Any) -> Any:
        raise error("not so")

    monkeypatch.setattr(command, "merge", merge)
    assert main(["--out", str(tmp_path), "--merge"]) == 1
    assert capsys.readouterr().err == f"visops.infer: {error.__name__}: not so\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], {"squeezenet1_1": ((224, 224), "crop"), "ssd": ((320, 320), "letterbox")}),
        (["--size", "64"], {"squeezenet1_1": ((64, 64), "crop"), "ssd": ((64, 64), "letterbox")}),
        (
            ["--fit", "stretch"],
            {"squeezenet1_1": ((224, 224), "stretch"), "ssd": ((320, 320), "stretch")},
        ),
    ],
)
def test_size_and_fit_leave_the_other_to_each_model(
    arguments: list[str], options: list[str], expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    class Seen(infer.Pipeline):
        def dry_run(self, *args: Any) -> Any:
            seen.extend(self.models)
            return super().dry_run(*args)

    monkeypatch.setattr(command, "Pipeline", Seen)
    names = "squeezenet1_1,ssdlite320_mobilenet_v3_large"
    options = ["--weights", "random", "--dry-run", *options]
    assert main([*arguments[:4], "--models", names, *options]) == 0
    found = {model.name: (model.preprocess.size, model.preprocess.fit) for model in seen}
    assert found == {
        "squeezenet1_1": expected["squeezenet1_1"],
        "ssdlite320_mobilenet_v3_large": expected["ssd"],
    }


def models_of(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> list[Any]:
    """Return the models, and the run's own preprocessing, that a command would run."""
    seen: list[Any] = []

    class Seen(infer.Pipeline):
        def dry_run(self, *args: Any) -> Any:
            seen.extend([*self.models, self.options.preprocess])
            return super().dry_run(*args)

    monkeypatch.setattr(command, "Pipeline", Seen)
    assert main([*arguments, "--dry-run"]) == 0
    return seen


IMAGENET = (infer.IMAGENET_MEAN, infer.IMAGENET_STD)


@pytest.mark.parametrize(
    ("options", "mean", "std"),
    [
        ([], *IMAGENET),
        (["--mean", "0.5", "--std", "0.25,0.5,1"], (0.5, 0.5, 0.5), (0.25, 0.5, 1.0)),
        (["--mean", "none"], None, infer.IMAGENET_STD),
        (["--std=none", "--mean=none"], None, None),
    ],
)
def test_mean_and_std(
    arguments: list[str], model: str, options: Any, mean: Any, std: Any, monkeypatch: Any
) -> None:
    names = f"squeezenet1_1,ssdlite320_mobilenet_v3_large,{model}"
    options = ["--models", names, "--weights", "random", *options]
    classes, boxes, file, own = models_of(monkeypatch, [*arguments, *options])
    assert (classes.preprocess.mean, classes.preprocess.std) == (mean, std)
    assert (boxes.preprocess.mean, boxes.preprocess.std) == (None, None)
    assert file.preprocess is None
    assert (own.mean, own.std) == (mean, std)


@pytest.mark.parametrize("wrong", ["0.5,0.5", "x", "1,2,3,4", ""])
def test_wrong_mean(arguments: list[str], wrong: str, capsys: Any) -> None:
    with pytest.raises(SystemExit):
        main([*arguments, "--mean", wrong])
    assert f"{wrong!r} is neither a number, nor three, nor none" in capsys.readouterr().err


def test_mean_is_useless_for_detectors_alone(arguments: list[str], capsys: Any) -> None:
    detector = ["--models", "ssdlite320_mobilenet_v3_large", "--mean", "0.5"]
    assert main([*arguments, *detector, "--weights", "random"]) == 1
    assert "--mean and --std have no effect: torchvision's detectors" in capsys.readouterr().err


def test_classes(arguments: list[str], model: str, tmp_path: Path, monkeypatch: Any) -> None:
    for name in ("a", "net=b"):
        (tmp_path / name).write_text(f"{name} 0\n{name} 1\n")
    a, b = str(tmp_path / "a"), f"net={tmp_path}/net=b"
    names = [*arguments, "--models", f"{model},squeezenet1_1", "--weights", "random"]

    def first(*options: str) -> list[Any]:
        *found, _ = models_of(monkeypatch, [*names, *options])
        return [one.classes and one.classes[0] for one in found]

    assert first() == [None, "tench"]
    assert first("--classes", a) == ["a 0", "tench"]
    assert first("--classes", b) == ["net=b 0", "tench"]
    assert first("--classes", f"squeezenet1_1={a}", "--classes", b) == ["net=b 0", "a 0"]
    assert first("--classes", "none") == [None, None]
    assert first("--classes", "none", "--classes", a) == ["a 0", "a 0"]


# A run that is slow enough for a signal to arrive in its middle.
SLOW = """
import sys, time, torch
from visops import infer
class Slow(torch.nn.Module):
    def forward(self, batch):
        print("batch", flush=True)
        time.sleep(0.1)
        return batch.mean((2, 3))
model = infer.Model("net", Slow(), source="slow or not")
summary = infer.run(sys.argv[1], sys.argv[2], [model], batch_size=2, workers=2,
                    preprocess=infer.Preprocess((8, 8)))
print("counts", summary.counts.missing, summary.pending)
sys.exit(summary.exit_code)
"""


class Quick(torch.nn.Module):
    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return batch.mean((2, 3))


def start(folder: Path, out: Path) -> Any:
    return subprocess.Popen(
        [sys.executable, "-c", SLOW, str(folder), str(out)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains(tmp_path: Path, number: Any) -> None:
    for i in range(60):
        save(tmp_path / "images" / f"{i:02d}.png", i)
    out = tmp_path / "out"
    with start(tmp_path / "images", out) as run:
        for _ in range(3):
            assert run.stdout.readline() == "batch\n"
        os.killpg(run.pid, number)  # as terminals and batch systems do: workers get it too
        rest = run.stdout.read()
    assert run.returncode == 128 + number
    begun = 3 + rest.count("batch\n")
    lines = (out / "manifest.jsonl").read_bytes().splitlines()
    assert len(lines) == begun < 30
    assert f"counts {60 - 2 * begun} {60 - 2 * begun}\n" in rest
    assert json.loads((out / "summary.json").read_text())["signal"] == number.name
    quick = infer.Model("net", Quick(), source="slow or not")
    options: dict[str, Any] = {
        "batch_size": 2,
        "workers": 0,
        "preprocess": infer.Preprocess((8, 8)),
    }
    assert infer.run(tmp_path / "images", out, [quick], **options).done == 60 - 2 * begun
    infer.run(tmp_path / "images", tmp_path / "whole", [quick], **options)
    assert files(out) == files(tmp_path / "whole")


@pytest.mark.cluster
def test_a_second_signal_kills(tmp_path: Path) -> None:
    for i in range(60):
        save(tmp_path / "images" / f"{i:02d}.png", i)
    with start(tmp_path / "images", tmp_path / "out") as run:
        run.stdout.readline()
        # Several: Python sees only one of the signals that arrive before it handles the first.
        while run.poll() is None:
            os.kill(run.pid, signal.SIGTERM)
            time.sleep(0.05)
    assert run.returncode == -signal.SIGTERM
