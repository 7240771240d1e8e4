"""When CUDA kernels are compiled, and for which GPUs."""

import os
from pathlib import Path

import pytest

pytest.importorskip("pybind11", reason="the build's own packages are not installed")
import build_toolchain as build

pytestmark = pytest.mark.skipif(os.name == "nt", reason="nvcc is played by a shell script")


@pytest.fixture
def cuda_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CUDA 13.0 toolkit whose nvcc can say its version and nothing else."""
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n")
    nvcc.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    for name in ("VISOPS_CUDA", "TORCH_CUDA_ARCH_LIST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def test_same_major_is_enough(cuda_home: Path) -> None:
    cuda = build.find_cuda("13.2")
    assert cuda is not None
    assert cuda.nvcc == cuda_home / "bin" / "nvcc"
    assert cuda.version == "13.0"
    assert cuda.archs == ["8.0", "9.0+PTX"]


@pytest.mark.parametrize(
    ("torch_cuda", "reason"),
    [
        ("12.8", "nvcc is CUDA 13.0 and torch was built for CUDA 12.8: majors differ"),
        (None, "this torch was built without CUDA"),
    ],
)
@pytest.mark.usefixtures("cuda_home")
def test_unfit_toolkit(
    torch_cuda: str | None,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert build.find_cuda(torch_cuda) is None
    assert capsys.readouterr().out == f"visops: building without CUDA kernels: {reason}\n"
    monkeypatch.setenv("VISOPS_CUDA", "1")
    with pytest.raises(SystemExit, match=f"VISOPS_CUDA=1, but {reason}"):
        build.find_cuda(torch_cuda)


def test_missing_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("VISOPS_CUDA", raising=False)
    assert build.find_cuda("13.2") is None
    assert "nvcc was not found" in capsys.readouterr().out


@pytest.mark.usefixtures("cuda_home")
def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISOPS_CUDA", "0")
    assert build.find_cuda("13.2") is None
    monkeypatch.setenv("VISOPS_CUDA", "yes")
    with pytest.raises(SystemExit, match="VISOPS_CUDA=yes is not known; it can be 0, 1 or native"):
        build.find_cuda("13.2")


@pytest.mark.usefixtures("cuda_home")
def test_this_machines_gpus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VISOPS_CUDA", "native")
    cuda = build.find_cuda("13.2", lambda: ["8.6", "9.0"])
    assert cuda is not None
    assert cuda.archs == ["8.6", "9.0"]
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "8.0")
    cuda = build.find_cuda("13.2", lambda: ["8.6"])
    assert cuda is not None
    assert cuda.archs == ["8.0"]
    capsys.readouterr()
    assert build.find_cuda("13.2", list) is None
    assert capsys.readouterr().out == (
        "visops: building without CUDA kernels: VISOPS_CUDA=native, and torch sees no GPU here\n"
    )


@pytest.mark.usefixtures("cuda_home")
@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        (
            "8.6 10.3a+PTX",
            [
                "-gencode=arch=compute_86,code=sm_86",
                "-gencode=arch=compute_103a,code=sm_103a",
                "-gencode=arch=compute_103a,code=compute_103a",
            ],
        ),
        (  # one PTX for all that 8.0 and newer understand
            "7.5;9.0+PTX;8.6",
            [
                "-gencode=arch=compute_75,code=sm_75",
                "-gencode=arch=compute_86,code=sm_90",
                "-gencode=arch=compute_86,code=compute_86",
                "-gencode=arch=compute_86,code=sm_86",
            ],
        ),
    ],
)
def test_architectures(archs: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", archs)
    cuda = build.find_cuda("13.2")
    assert cuda is not None
    assert cuda.arch_flags() == expected


@pytest.mark.usefixtures("cuda_home")
def test_architectures_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", "Ampere")
    cuda = build.find_cuda("13.2")
    assert cuda is not None
    with pytest.raises(SystemExit, match="TORCH_CUDA_ARCH_LIST has 'Ampere'"):
        cuda.arch_flags()


@pytest.mark.usefixtures("cuda_home")
def test_the_hosts_side_is_compiled_for_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from build_ninja import NinjaFile

    built: list[list[str]] = []
    file = NinjaFile(build.find_cuda("13.2"))
    monkeypatch.setattr(file, "build", lambda *words: built.append(list(words[-1])))
    file.cuda_objects("cuda", [Path("csrc/cuda/kernel.cu")])
    (flags,) = built
    # nvcc puts its own -O behind what -Xcompiler passes on, and the last one counts.
    assert not [flag for flag in flags if flag.startswith("-O")]
    levels = [flag for flag in flags if flag.startswith("-Xcompiler=-O")]
    assert levels[-1] == f"-Xcompiler={build.FLAGS.small[0]}" == "-Xcompiler=-Os"
