"""``open``: results of runs and of sweeps, from files, folders and checkpoints; what reads checkpoints is imported for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mdf_loop.errors import MalformedBody
from mdf_loop.models.saving import open_results
from mdf_loop.options import public
from mdf_loop.readers.model_files import as_path


@public
def open(path: Any, /) -> Any:
    """Read results: what :meth:`Results.save`, ``record_to``, ``checkpoint`` and ``mdf-loop run`` wrote, or a Dataset of a sweep.

    Parameters
    ----------
    path : str or path-like
        A ``.npz``, ``.nc`` or ``.zarr`` file, or the address of a checkpoint.

    Returns
    -------
    Results, or xarray.Dataset
        Results, if :meth:`Results.save` or ``record_to`` wrote them, also those of a run that was killed (recorded values stay
        in the file until you read them).  Only outputs, for a ``.npz`` file of arrays.  A Dataset, if ``mdf-loop sweep`` or
        xarray wrote it.  A Dataset of a checkpoint, also while the sweep runs: ``.attrs["complete"]`` is the number of
        complete runs.  A store is opened lazily.

    Raises
    ------
    MalformedBody
        There is no such file, or no results in it, or it is of a kind that may do more than hold numbers.

    Examples
    --------
    >>> import mdf_loop, tempfile
    >>> path = tempfile.mkdtemp() + "/run.npz"
    >>> mdf_loop.run("examples/drift_diffusion.yaml", seed=7).save(path)
    >>> mdf_loop.open(path).iterations
    250
    """
    text = path if isinstance(path, str) else os.fspath(as_path(path, "a file of results"))
    if "://" in text or text.rstrip("/").endswith(".zarr"):
        from mdf_loop.sweeps.checkpoints.checkpoint import holds_checkpoint
        from mdf_loop.sweeps.checkpoints.reading import done_in
        from mdf_loop.sweeps.checkpoints.storage import place_of

        place = place_of(path)
        if holds_checkpoint(place.names()):
            return done_in(place)
        if "://" in text:
            raise MalformedBody(f"{text!r} holds no checkpoint of a sweep; other results are opened from files of this machine")
    return open_results(Path(text).expanduser())
