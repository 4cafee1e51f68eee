"""The pages run as tests, from the top of the project."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _page(request, monkeypatch):
    if request.node.name == "gradients.rst":
        pytest.importorskip("jax", reason='jax is not installed: pip install -e ".[jax]"')
    monkeypatch.chdir(Path(__file__).parent.parent)
