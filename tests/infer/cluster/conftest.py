"""Fixtures that the tests of runs over many processes share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from infer.networks import make_images, outputs, pipeline


@pytest.fixture
def environ() -> Iterator[dict[str, str]]:
    """The environment of ranks that meet at a store like torchrun's, older than they are."""
    agents = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    yield {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(agents.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    del agents


@pytest.fixture
def job(tmp_path: Path) -> tuple[Path, Path]:
    """A folder of images, and one for outputs."""
    return make_images(tmp_path / "images"), tmp_path / "out"


@pytest.fixture
def expected(job: tuple[Path, Path], tmp_path: Path) -> dict[str, bytes]:
    """The outputs of one process."""
    pipeline().run(job[0], tmp_path / "one")
    return outputs(tmp_path / "one")
