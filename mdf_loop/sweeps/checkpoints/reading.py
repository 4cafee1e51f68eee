"""What a checkpoint holds, as a Dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mdf_loop.errors import LoopError, MalformedBody, in_words, let_through, warn_user
from mdf_loop.sweeps.checkpoints.checkpoint import Place, said_in, what_is_wrong
from mdf_loop.sweeps.checkpoints.chunk_files import chunk_names, numbers_of, parts_of, read_chunk
from mdf_loop.sweeps.checkpoints.digest import digest_of, digest_of_points
from mdf_loop.sweeps.grid import Grid
from mdf_loop.sweeps.rows.labels import Labels, labelled
from mdf_loop.sweeps.rows.merging import Merged
from mdf_loop.sweeps.rows.rows_of_runs import Chunk, Table

ANY, PER_BYTE = 1 << 30, 1 << 12
"""A Dataset may take so many bytes however little is done, and so many more for each byte that is there."""


def done_in(place: Place) -> Any:
    """What is done of a sweep."""
    said = said_in(place)
    if said["layout"] is not None:
        from mdf_loop.sweeps.stores.store import done_in_store

        return done_in_store(place, said["layout"])
    labels, belongs, grid = said["labels"], digest_of(said["lines"]), _grid_of(said)
    damaged: dict[str, Exception] = {}
    chunks: dict[str, Chunk] = {}
    for name in chunk_names(place.names()):
        try:
            chunks[name] = read_chunk(place.read(name), name, labels.points, labels.merging, belongs, grid)
        except MalformedBody as error:
            damaged[name] = error
    if damaged:
        warn_user(f"{what_is_wrong(place, damaged)}. They count as runs that are not done")
    _refuse_huge(place, labels, chunks)
    try:
        table = labels.table()
        for name, chunk in chunks.items():
            _add(table, name, chunk, labels)
        return labelled(labels, table, labels.failed(table.errors))
    except LoopError:
        raise
    except Exception as error:  # what labels say may be anything
        let_through(error)
        raise MalformedBody(f"{str(place)!r} holds no results of a sweep: {error}") from error


def _grid_of(said: Mapping[str, Any]) -> Grid | None:
    """The points of a sweep, where its labels tell them exactly."""
    labels = said["labels"]
    lead = [(dim, size) for dim, size in zip(labels.dims, labels.shape, strict=True) if dim != "trial"]
    numbered = [
        (name, at, values) for name, (at, values) in labels.coordinates.items() if name != "trial" and isinstance(at, str)
    ]
    axes = [(name, (dim, tuple(values.tolist()))) for name, dim, values in numbered]
    grid = Grid(tuple(dim for dim, _ in lead), tuple(size for _, size in lead), tuple(axes))
    try:
        return grid if digest_of_points(grid, 0, grid.size) == said["digest"] else None
    except (ValueError, IndexError, KeyError, MemoryError):
        return None


def _refuse_huge(place: Place, labels: Labels, chunks: Mapping[str, Chunk]) -> None:
    """See that the Dataset is not much larger than what is there."""
    columns = [rows for chunk in chunks.values() for rows, _ in chunk.columns.values()]
    row = max((rows[:1].nbytes for rows in columns), default=0) * max(len(labels.names), 1) + 1
    if labels.rows * row > ANY + PER_BYTE * sum(rows.nbytes for rows in columns):
        raise MalformedBody(f"{str(place)!r} declares {in_words(labels.rows)} runs; too few are complete to show them")


def _add(table: Table, name: str, chunk: Chunk, labels: Labels) -> None:
    start, stop, _ = numbers_of(name)
    if isinstance(table, Merged):
        if table.merging.is_whole(start, stop) or None not in labels.reduces.values():
            table.add(start, chunk, stop - start)  # what a function makes of the trials of a point cannot be made without it
        return
    for first, behind, at in parts_of(name, labels.trials):
        table.add(first, chunk.part(at, at + behind - first), behind - first)
