"""Tests of this folder run on each decoder that is there."""

import pytest

from .files import LOADERS, use


@pytest.fixture(params=LOADERS)
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Decode by libjpeg-turbo, then by Pillow; skips what isn't there."""
    use(request.param, monkeypatch)
    return str(request.param)
