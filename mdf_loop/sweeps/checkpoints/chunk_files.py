"""What is known, and arrays, in one ``.npz`` file whose comment is a checksum of all of it; and chunks as such files.

The name of a chunk says its runs: ``chunk_0_100_of_40.npz`` are runs 0 to 99 of a sweep with 40 trials at each point.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from mdf_loop.convert.weights import BROKEN, Archive
from mdf_loop.errors import ArgumentError, MalformedBody
from mdf_loop.models.written import widened
from mdf_loop.sweeps.checkpoints.digest import digest_of_points
from mdf_loop.sweeps.grid import Grid
from mdf_loop.sweeps.rows.merging import Merging
from mdf_loop.sweeps.rows.rows_of_runs import Chunk
from mdf_loop.system.checksums import checksum
from mdf_loop.writers.atomic_files import write_npz

SAID, LENGTH = "said", 64
"""The array that holds what is known, as JSON in bytes, and the characters of a checksum."""

_CHUNK = re.compile(r"chunk_(\d{1,18})_(\d{1,18})_of_([1-9]\d{0,17})\.npz")


def sealed(said: Any, arrays: Mapping[str, np.ndarray], *belongs: str) -> bytes:
    """The content of a file; ``belongs`` says what it is a part of, and is not in it."""
    file = io.BytesIO()
    text = np.frombuffer(json.dumps(said).encode(), np.uint8)
    write_npz(file, {SAID: text, **arrays}, "0" * LENGTH)
    content = file.getbuffer()
    content[-LENGTH:] = checksum(*belongs, content[:-LENGTH]).encode()
    del content
    return file.getvalue()


def unsealed(content: bytes, label: str, *belongs: str) -> tuple[Any, dict[str, np.ndarray]]:
    """What is known, and the arrays.

    Raises
    ------
    MalformedBody
        It is not what was written, or is part of something else.
    """
    view = memoryview(content)
    if bytes(view[-LENGTH:]) != checksum(*belongs, view[:-LENGTH]).encode():
        raise MalformedBody(f"{label} is damaged, or belongs to another sweep")
    try:
        archive = Archive(io.BytesIO(content), label)
        arrays = {name: archive.array(name) for name in archive.names()}
        return json.loads(arrays.pop(SAID).tobytes()), arrays
    except (*BROKEN, KeyError, RecursionError) as error:
        raise MalformedBody(f"{label} cannot be read: {error}") from error


def chunk_name(start: int, stop: int, trials: int) -> str:
    """The name of a chunk."""
    return f"chunk_{start}_{stop}_of_{trials}.npz"


def chunk_names(names: list[str]) -> list[str]:
    """The chunks among some names, by their first runs."""
    return sorted(filter(_CHUNK.fullmatch, names), key=numbers_of)


def numbers_of(name: str) -> tuple[int, int, int]:
    """The first run of a chunk, the one behind its last, and how many trials its sweep had at each point."""
    found = _CHUNK.fullmatch(name)
    if found is None:
        raise MalformedBody(f"{name} is not a chunk")
    return int(found[1]), int(found[2]), int(found[3])


def written_chunk(name: str, chunk: Chunk, belongs: str, points: str) -> bytes:
    """The content of a file; ``belongs`` and ``points`` are what decides it.

    Raises
    ------
    ArgumentError
        It holds what no file can hold.
    """
    arrays: dict[str, np.ndarray] = {}
    for k, (output, (rows, lengths)) in enumerate(chunk.columns.items()):
        arrays[f"rows_{k}"] = widened(np.asarray(rows))
        if arrays[f"rows_{k}"].dtype == object:
            raise ArgumentError(f"output {output!r} holds what a checkpoint cannot hold; leave it out: outputs=[...]")
        if lengths is not None:
            arrays[f"lengths_{k}"] = np.asarray(lengths)
    if chunk.at_m is not None:
        arrays["at_m"] = np.asarray(chunk.at_m)
    errors = {str(k): error for k, error in chunk.errors.items()}
    return sealed({"names": list(chunk.columns), "errors": errors, "points": points}, arrays, belongs, name)


def read_chunk(content: bytes, name: str, points: int, merging: Merging | None, belongs: str, grid: Grid | None) -> Chunk:
    """A chunk of a sweep of so many points, whose values are in ``grid``, if that is known.

    Raises
    ------
    MalformedBody
        It is not what was written, or is part of something else.
    """
    start, stop, trials = numbers_of(name)
    if not start < stop <= points * trials:
        raise MalformedBody(f"{name} is for runs that this sweep does not have")
    said, arrays = unsealed(content, name, belongs, name)
    try:
        if grid is not None and said["points"] != digest_of_points(grid, start // trials, (stop - 1) // trials + 1):
            raise MalformedBody(f"{name} is of other points")
        names = enumerate(said["names"])
        columns = {str(output): (arrays[f"rows_{k}"], arrays.get(f"lengths_{k}")) for k, output in names}
        errors = {int(k): str(error) for k, error in said["errors"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MalformedBody(f"{name} cannot be read: {error}") from error
    at_m = arrays.get("at_m")
    shapes = {rows.shape[:1] for rows, _ in columns.values()} | {more.shape for _, more in columns.values() if more is not None}
    shapes |= {at_m.shape} if at_m is not None and at_m.ndim else set()
    count = stop - start if merging is None else merging.rows_in(start, stop)
    if shapes - {(count,)} or not all(0 <= k < stop - start for k in errors):
        raise MalformedBody(f"{name} has other runs than its name says")
    return Chunk(columns, errors, at_m=at_m)


def parts_of(name: str, trials: int) -> Iterator[tuple[int, int, int]]:
    """The runs of a chunk in a sweep with so many trials at each point.

    Yields
    ------
    first, behind, place
        The first run, the one behind the last, and the first's place in the chunk.
    """
    start, stop, there = numbers_of(name)
    if there == trials:
        yield start, stop, 0
        return
    for point in range(start // there, (stop - 1) // there + 1):
        first, behind, move = max(start, point * there), min(stop, (point + 1) * there), point * (trials - there)
        if first + move < (point + 1) * trials:
            yield first + move, min(behind + move, (point + 1) * trials), first - start
