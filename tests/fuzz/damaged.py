"""Damaged checkpoints and files of results: the numbers that were written or a LoopError, never other numbers of a sweep."""

from __future__ import annotations

import contextlib
import functools
import random
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mdf_loop
from mdf_loop.errors import LoopError

from . import mutators
from .files import NOT_OF_ITS_KIND, innermost
from .target import Failure, Settings, Target

ROOT = Path(__file__).parent.parent.parent
MODEL = ROOT / "examples" / "drift_diffusion.yaml"
SWEEP: dict[str, Any] = {"over": {"drift": [0.5, 1.0, 2.0]}, "trials": 4, "seed": 1, "outputs": ["evidence", "reaction_time"]}
KINDS = ("checkpoint.zarr", "results.zarr", "recorded.zarr", "sweep.zarr", "results.nc", "results.npz")
ODD = (
    "chunk_x_y",
    "chunk_0_5_of_0.npz",
    "chunk_0_999999999999_of_4.npz",
    ".tmp-0",
    "claim_0_5_of_4_0123456789abcdef",
    ".zattrs",
    "x/y",
)


@dataclass
class Damage:
    """The files of a folder, by path; the folder is what ``kind`` says."""

    kind: str
    files: dict[str, bytes]


@functools.cache
def seeds() -> dict[str, dict[str, bytes]]:
    """Files that are right, by kind."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        home = Path(folder)
        mdf_loop.sweep(MODEL, **SWEEP, chunk=5, checkpoint=home / "checkpoint.zarr")
        run = mdf_loop.run(MODEL, seed=1, record="decision.x_out", record_to=home / "recorded.zarr")
        for name in ("results.zarr", "results.nc", "results.npz"):
            run.save(home / name)
        swept().to_zarr(home / "sweep.zarr", consolidated=False, zarr_format=3)
        for kind in KINDS:
            paths = [path for path in [home / kind, *sorted((home / kind).rglob("*"))] if path.is_file()]
            found[kind] = {str(path.relative_to(home)): path.read_bytes() for path in paths}
    return found


@functools.cache
def swept() -> Any:
    """The sweep whose checkpoint is damaged."""
    return mdf_loop.sweep(MODEL, **SWEEP)


def make(choose: random.Random) -> Damage:
    """A few files that are damaged, cut short, gone, exchanged or in the way."""
    kind = choose.choice([KINDS[0], *KINDS])
    files = dict(seeds()[kind])
    for _ in range(choose.choice([1, 1, 2, 3])):
        name, other = choose.choice(sorted(files)), choose.choice(sorted(files))
        way = choose.randrange(7)
        if way == 0:
            bits = bytearray(files[name] or b"0")
            bits[choose.randrange(len(bits))] ^= 1 << choose.randrange(8)
            files[name] = bytes(bits)
        elif way == 1:
            files[name] = files[name][: choose.randrange(len(files[name]) + 1)]
        elif way == 2 and len(files) > 1:
            del files[name]
        elif way == 3:
            files[name], files[other] = files[other], files[name]
        elif way == 4 and kind.endswith(".zarr"):
            files[f"{kind}/{choose.choice(ODD)}"] = choose.choice([b"", b"{}", files[name]])
        elif name.endswith(".json"):
            with contextlib.suppress(*NOT_OF_ITS_KIND):  # after the damage before
                files[name] = mutators.of_json(choose, files[name])
        else:
            files[name] = mutators.of_bytes(choose, files[name])
    return Damage(kind, files)


def check(case: Damage, settings: Settings) -> None:
    """Open it, and go on with it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, data in case.files.items():
            place = Path(folder) / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        place, is_checkpoint = Path(folder) / case.kind, case.kind == KINDS[0]
        found = _called("open", lambda: mdf_loop.open(place))
        if is_checkpoint and hasattr(found, "attrs"):
            _see_same("open", found, found.attrs["complete"])
        if is_checkpoint:
            found = _called("sweep", lambda: mdf_loop.sweep(MODEL, **SWEEP, checkpoint=place))
            if found is not None:
                _see_same("sweep", found, swept().attrs["complete"])


def _called(what: str, call: Any) -> Any:
    try:
        return call()
    except LoopError:
        return None
    except Exception as error:
        place = innermost(error)
        raise Failure(f"{what}: {type(error).__name__} escaped at {place}", " ".join(str(error).split())[:300]) from error


def _see_same(what: str, found: Any, complete: int) -> None:
    for name in SWEEP["outputs"]:
        right, got = swept()[name].values, found[name].values
        same = got == right
        if same.sum() < complete or not (same | np.isnan(got)).all():
            raise Failure(f"{what}: other numbers of {name}", f"{right.tolist()} expected, {got.tolist()} came")


def smaller(case: Damage) -> Iterator[Damage]:
    """With one file as it was."""
    for name, data in seeds()[case.kind].items():
        if case.files.get(name) != data:
            yield Damage(case.kind, {**case.files, name: data})
    for name in set(case.files) - set(seeds()[case.kind]):
        yield Damage(case.kind, {other: data for other, data in case.files.items() if other != name})


SCRIPT = '''"""Files of results whose damage is not found, or ends in something else than a LoopError."""
import sys

sys.path.insert(0, {root!r})
from tests.fuzz.damaged import Damage, check
from tests.fuzz.target import Settings

FILES = {files}
check(Damage({kind!r}, {{name: bytes.fromhex(data) for name, data in FILES.items()}}), Settings())
'''


def script(case: Damage) -> str:
    """A script that writes the files and opens them."""
    files = {name: data.hex() for name, data in case.files.items()}
    return SCRIPT.format(root=str(ROOT), files=files, kind=case.kind)


TARGET = Target(
    "damaged",
    "damaged checkpoints and files of results: the numbers that were written, or a LoopError",
    make,
    check,
    script,
    smaller,
    in_tests=30,
    seconds=30,
    megabytes=2048,
)
