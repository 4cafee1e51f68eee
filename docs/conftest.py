"""The pages run as tests, from the top of the project; operators that a page adds are gone after it."""

from pathlib import Path

import pytest

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.registry import KERNELS


@pytest.fixture(autouse=True)
def _page(request, monkeypatch):
    if request.node.name == "gradients.rst":
        pytest.importorskip("jax", reason='jax is not installed: pip install "mdf-loop[jax]"')
    monkeypatch.chdir(Path(__file__).parent.parent)
    load_kernels()
    kept = {key: list(versions) for key, versions in KERNELS.items()}
    yield
    KERNELS.clear()
    KERNELS.update(kept)
