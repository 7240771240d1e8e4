"""examples/cpp is built and run by the commands of its README."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import visops

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cpp"
COMMANDS = re.findall(r"^```sh\n(.*?)^```", (EXAMPLE / "README.md").read_text(), re.M | re.S)
# Beside the interpreter are the programs of its packages: cmake, ninja.
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
PHOTOS = ("astronaut", "chelsea", "coffee")

pytestmark = pytest.mark.xdist_group("examples_cpp")  # one process builds for all tests


def run(
    folder: Path, command: str, text: str = "", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a shell command without the variables that another test may have set."""
    environment = {**os.environ, "PATH": PATH, **variables}
    environment.pop("VISOPS_CPU", None)
    shell = ["bash", "-euo", "pipefail", "-c", command]
    return subprocess.run(
        shell, cwd=folder, env=environment, input=text, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The example's folder after all commands of its README, and what they printed."""
    if shutil.which("cmake", path=PATH) is None:
        pytest.skip("cmake is not installed; pip install cmake")
    if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("examples") / "cpp"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("build", "model", "__*"))
    # As Ubuntu's compilers have it: the linker leaves out libraries of which no symbol is used.
    variables = {"CMAKE_GENERATOR": "Ninja", "LDFLAGS": "-Wl,--as-needed"}
    if shutil.which("ccache"):  # as our own build: the second run takes seconds
        variables |= {"CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
        variables |= {"CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}
    done = run(folder, "\n".join(COMMANDS), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder, done.stdout + done.stderr


def test_operators_give_what_python_gives(example: tuple[Path, str]) -> None:
    boxes = torch.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30]])
    kept = visops.nms(boxes, torch.tensor([0.8, 0.9, 0.7]), 0.5)
    image = torch.arange(4.0).reshape(1, 1, 1, 4)
    matrix = [[1.0, 0, 1], [0, 1, 0]]
    shifted = visops.warp_affine(image, matrix, (1, 4), padding_mode="replicate")
    map = torch.arange(64.0).reshape(1, 1, 8, 8)
    pooled = visops.roi_align(map, torch.tensor([[0.0, 1, 1, 5, 5]]), (2, 2))
    with pytest.raises(RuntimeError) as error:
        visops.nms(torch.zeros(4, 3), torch.zeros(4), 0.5)
    for title, tensor in (
        ("nms keeps boxes", kept),
        ("affine gives pixels", shifted),
        ("roi_align gives bins", pooled),
    ):
        values = " ".join(f"{value:g}" for value in tensor.flatten().tolist())
        assert f"{title} {values}\n" in example[1]
    assert f"an error says: {error.value}\n" in example[1]


def test_a_detector_finds_what_it_finds_in_python(example: tuple[Path, str]) -> None:
    found = (example[0] / "model" / "found.txt").read_text()
    assert found == (example[0] / "model" / "expected.txt").read_text()
    lines = [line.split() for line in found.splitlines()]
    assert [line[0] for line in lines] == [f"model/{photo}.ppm" for photo in PHOTOS]
    for line in lines:
        scores = [float(word) for word in line[2::6]]
        assert len(scores) > 3
        assert scores == sorted(scores, reverse=True)
        assert {*line[1::6]} <= {"0", "1"}


def assert_alike(answers: str, others: str) -> None:
    """Compare the numbers in lines of answers, and the paths."""
    one, other = answers.split(), others.split()
    assert len(one) == len(other)
    for word, same in zip(one, other, strict=True):
        if word.startswith("model/"):
            assert word == same
        else:
            assert float(word) == pytest.approx(float(same), rel=1e-5)


def test_servers_answer_alike_and_report(example: tuple[Path, str]) -> None:
    folder, printed = example
    answers = (folder / "model" / "cpp.txt").read_text()
    assert answers == (folder / "model" / "python.txt").read_text()
    assert len(answers.splitlines()) == 200
    # oneDNN's convolutions differ in the last bit with the number of threads, and uncompiled.
    expected = (folder / "model" / "expected.txt").read_text()
    assert_alike("".join(answers.splitlines(keepends=True)[:3]), expected)
    assert_alike(answers, (folder / "model" / "eager.txt").read_text())
    for name in ("C\\+\\+", "Python", "Python, not compiled"):
        pattern = rf"^{name}: 190 photos on 1 thread: p50 (\S+) ms, p99 (\S+) ms$"
        ((half, nearly_all),) = re.findall(pattern, printed, re.M)
        assert 0 < float(half) <= float(nearly_all)


def test_a_bad_request_gets_an_answer_and_the_server_lives(example: tuple[Path, str]) -> None:
    folder = example[0]
    (folder / "short.ppm").write_bytes(b"P6 40 30 255\n1234")
    (folder / "text.ppm").write_text("hello")
    requests = "none.ppm\ntext.ppm\nshort.ppm\nmodel/chelsea.ppm\n"
    done = run(folder, "./build/serve model/detector.pt2", requests)
    assert done.returncode == 0, done.stderr
    *errors, answer = done.stdout.splitlines()
    assert errors == [
        "error: none.ppm can't be opened",
        "error: text.ppm is not a binary PPM of 8 bits and at most 16384 x 16384",
        "error: short.ppm ends early",
    ]
    assert answer in (folder / "model" / "cpp.txt").read_text().splitlines()


def test_the_programs_hold_no_python(example: tuple[Path, str]) -> None:
    for name in ("operators", "detect", "serve"):
        command = f"LD_TRACE_LOADED_OBJECTS=1 ./build/{name}"
        loaded = run(example[0], command).stdout
        assert "libvisops.so" in loaded
        assert "libtorch_cpu.so" in loaded
        assert "python" not in re.sub(r"\S*/\S*", "", loaded)
        assert "not found" not in loaded
