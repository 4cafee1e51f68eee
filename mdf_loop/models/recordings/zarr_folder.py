"""The ``.zarr`` folder of ``record_to``: what is recorded while the model runs, and what else is known of the run.

The rows of each recorded value are an array of its name, as other programs read it.  What is known when the run begins stands
in the attributes, so that a folder of which the run was killed can be opened as well; when it is over its outputs stand beside.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.errors import LoopError, MalformedBody, warn_user
from mdf_loop.models.results import About, Results
from mdf_loop.models.saving import IN_FOLDER, IN_ZARR, SAID, VALUE, VALUES, said_of
from mdf_loop.models.strangers import zarr_attributes
from mdf_loop.models.written import NotWritable
from mdf_loop.settings.engines import needed
from mdf_loop.writers.atomic_files import naming


class Folder:
    """A new folder, which is made when the first rows come.

    Parameters
    ----------
    path : str or path-like
    about : About
        What is known of the run before it begins.
    names : sequence of str
        What is going to be recorded.

    Raises
    ------
    LoopError
        zarr is not installed, the name does not end in ``.zarr``, or there is something else of that name.
    """

    def __init__(self, path: Any, about: About, names: Sequence[str]) -> None:
        self.place, self.about, self.names = Path(path).expanduser(), about, names
        if self.place.suffix != ".zarr":
            raise LoopError(f"record_to is the name of a .zarr folder; got {str(path)!r}")
        self._zarr = needed("zarr", "record_to needs zarr", "sweep")
        if self.place.exists() and not self._holds_results():
            raise LoopError(f"{str(path)!r} exists and has no results of a run; it is not replaced")

    def _holds_results(self) -> bool:
        try:
            return str(zarr_attributes(self.place).get(SAID)).startswith("{")
        except MalformedBody:  # a folder that is nothing of zarr's
            return False

    @cached_property
    def group(self) -> Any:
        """The group of zarr; what was there is gone."""
        with naming(self.place, what="written"):
            group = self._zarr.open_group(self.place, mode="w", zarr_format=3)
        self._write(group, Results({}, self.about), {name: {"kind": IN_ZARR} for name in self.names})
        return group

    def finish(self, results: Results) -> None:
        """Write what else is known of a run that is over."""
        recorded = results.about.recorded
        there = {name: {"kind": IN_ZARR} for name, value in recorded.items() if isinstance(value, self._zarr.Array)}
        self._write(self.group, results, there)

    def _write(self, group: Any, results: Results, there: dict[str, Any]) -> None:
        """Write what is known; ``there`` is said of recorded values that stand in the folder themselves."""
        arrays: list[np.ndarray] = []
        try:
            said = said_of(results, arrays, there) | {IN_FOLDER: True}
        except NotWritable as error:
            warn_user(f"{str(self.place)!r} has what is recorded, and nothing else of the run: {error}")
            return
        with warnings.catch_warnings(), naming(self.place, what="written"):
            warnings.simplefilter("ignore")  # zarr's, about texts in other programs
            for k, array in enumerate(arrays):
                axes = [f"{k}_{axis}" for axis in range(array.ndim)]
                name = f"{VALUES}/{VALUE.format(k)}"
                group.create_array(name, data=np.asarray(array), dimension_names=axes, overwrite=True)
            group.attrs[SAID] = json.dumps(said)
