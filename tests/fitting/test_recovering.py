"""The page on sweeps recovers a drift rate with optuna as well, in a block that is no doctest: optuna need not be there."""

import doctest
import textwrap
from pathlib import Path

import numpy as np
import pytest

import mdf_loop

PAGE = Path(__file__).parents[2] / "docs" / "sweeps.rst"


def test_the_example_with_optuna_finds_the_drift():
    """The blocks of the page, run as they stand: those of scipy first, which optuna's goes on from."""
    optuna = pytest.importorskip("optuna", reason="the page's second optimiser is not installed")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pytest.importorskip("xarray")
    page = PAGE.read_text()
    space = {"mdf_loop": mdf_loop, "np": np, "model": mdf_loop.prepare("examples/drift_diffusion.yaml")}
    recovering = page[page.index("Recovering parameters") :]
    for example in doctest.DocTestParser().get_examples(recovering):
        if example.source.startswith(("def ", "observed")):
            exec(example.source, space)
    block = recovering.partition(".. code-block:: python\n\n")[2]
    exec(textwrap.dedent(block), space)
    assert abs(space["study"].best_params["drift"] - 1.2) < 0.25
