"""Results in files: ``.npz`` keeps every type, ``.nc`` and ``.zarr`` are what xarray writes."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mdf_loop.convert.weights import open_archive
from mdf_loop.errors import LoopError, MalformedBody, MissingFile, let_through, warn_user
from mdf_loop.models.labelled import dataset, labels_of, named_arrays, seed_text, xarray
from mdf_loop.models.results import About, Results
from mdf_loop.models.strangers import refuse_strange, zarr_attributes
from mdf_loop.models.written import Said, read_again, written
from mdf_loop.readers.model_files import as_path, like_file, shortened
from mdf_loop.settings.engines import needed
from mdf_loop.writers.atomic_files import naming, replacing, sync_folder, write_npz

SAID, VALUE, VALUES = "mdf_loop", "mdf_loop_value_{}", "mdf_loop_values"
"""Names in a file: what there is, as JSON, the arrays, and the group of arrays beside what was recorded to a folder."""

NUMBERED = re.compile(r"(?:mdf_loop_)?value_(\d+)")
"""Names of arrays, also those that earlier versions gave them."""

IN_ZARR, IN_FOLDER = "zarr", "folder"
"""The kind of a value that is an array of its own name in a folder that a run was recorded to, and what says that it is one."""

SUFFIXES = (".npz", ".nc", ".zarr")


def save(results: Results, path: Any) -> None:
    """Write results to a file; see :meth:`Results.save`."""
    place = _place(path)
    arrays: list[np.ndarray] = []
    said = said_of(results, arrays)
    if place.suffix == ".npz":
        named = {name: array for name, array in named_arrays(results).items() if array.dtype != object}
        with replacing(place) as file:
            write_npz(file, {SAID: np.array(json.dumps(said)), **named, **_others(said, arrays, named)})
        return
    made = dataset(results)
    made = made.drop_vars([name for name, held in made.variables.items() if held.dtype == object])
    others = {name: _variable(name, array) for name, array in _others(said, arrays, made).items()}
    write_dataset(made.assign(others).assign_attrs({SAID: json.dumps(said)}), place)


def open_results(path: Any) -> Any:
    """What a file of results holds; see :func:`mdf_loop.open`."""
    place = _place(path)
    try:
        if place.suffix == ".npz":
            return _of_archive(place)
        if not place.exists():
            names = os.listdir(place.parent) if place.parent.is_dir() else []
            raise MissingFile(f"there is no file {os.fspath(place)!r}{like_file(place, names)}")
        _need(place)
        said = _said_of_recording(place)
        refuse_strange(place, "" if said is None else VALUES)
        return _of_dataset(place) if said is None else _of_recording(place, said)
    except LoopError:
        raise
    except Exception as error:  # what it says may be anything, and zarr, HDF5 and xarray have errors of every kind
        let_through(error)
        raise MalformedBody(f"{shortened(place)!r} holds no results of a run: {error or type(error).__name__}") from error


def _results(said: Mapping[str, Any], arrays: Mapping[int, np.ndarray], place: Path) -> Results:
    try:
        values = {key: {name: read_again(value, arrays) for name, value in said[key].items()} for key in KEPT}
        known = {name: read_again(value, arrays) for name, value in said["about"].items()}
        about = About(**_with_steps(known, values["recorded"], place))
    except (KeyError, TypeError, AttributeError) as error:
        raise MalformedBody(f"{os.fspath(place)!r} holds no results of a run") from error
    about.recorded, about.inputs, about.lengths = values["recorded"], values["inputs"], values["lengths"]
    return Results(values["outputs"], about)


def _with_steps(known: dict[str, Any], recorded: Iterable[str], place: Path) -> dict[str, Any]:
    """What is known of a run; earlier versions kept one ``dt`` for all rows."""
    dt = known.pop("dt", None)
    if dt is not None:
        known["steps"] = dict.fromkeys([*recorded, *known["collected"]], float(dt))
        warn_user(
            f"{os.fspath(place)!r} is of an earlier version of mdf_loop, which took dt={dt} for the step of all rows, also of "
            "loops that do not read dt: see that the times fit, or run the model again and save it"
        )
    return known


KEPT = ("outputs", "recorded", "inputs", "lengths")


def said_of(results: Results, arrays: list[np.ndarray], there: Mapping[str, Said] | None = None) -> dict[str, Any]:
    """What is known of results, in JSON; their arrays are put behind those there are.

    ``there`` is what is said of recorded values that are in the file already.

    Raises
    ------
    NotWritable
        A value cannot stand in a file.
    """
    about, there = results.about, there or {}
    left = {name: value for name, value in about.recorded.items() if name not in there}
    parts = {"outputs": results, "recorded": left, "inputs": about.inputs, "lengths": about.lengths}
    said: dict[str, Any] = {
        key: {name: written(value, arrays, name) for name, value in part.items()} for key, part in parts.items()
    }
    said["recorded"] = {**there, **said["recorded"]}
    rest = {name: [*value] if isinstance(value, tuple) else value for name, value in vars(about).items() if name not in parts}
    rest["seed"] = seed_text(about.seed) if isinstance(about.seed, np.random.SeedSequence) else about.seed
    said["about"] = {name: written(value, arrays, name) for name, value in rest.items()}
    return said


def _of_archive(place: Path) -> Results:
    """Results of an archive; arrays by name, such as ``numpy.savez`` writes them, are outputs."""
    with open_archive(place) as archive:
        names = archive.names()
        if SAID not in names:
            return Results({name: archive.array(name) for name in names})
        said = _parsed(archive.array(SAID).item(), place)
        return _results(said, _arrays(said, names, archive.array), place)


def _said_of_recording(place: Path) -> dict[str, Any] | None:
    """What is known of a run that was recorded to a folder; None for any other file."""
    text = str(zarr_attributes(place).get(SAID)) if place.suffix == ".zarr" else ""
    said = _parsed(text, place) if text.startswith("{") else {}
    return said if said.get(IN_FOLDER) is True else None


def _of_recording(place: Path, said: dict[str, Any]) -> Results:
    """Results of a run that was recorded to a folder; what was recorded is read when asked for."""
    import zarr

    with naming(place):
        group = zarr.open_group(place, mode="r", zarr_format=3, use_consolidated=False)
        held = group.get(VALUES, {})
        arrays = _arrays({"recorded": {}, "outputs": {}}, held, lambda name: np.asarray(held[name][...]))
        kinds = {name: value["kind"] for name, value in said["recorded"].items()}
        said["recorded"] = {name: value for name, value in said["recorded"].items() if kinds[name] != IN_ZARR}
        results = _results(said, arrays, place)
        there = {name: group[name] for name, kind in kinds.items() if kind == IN_ZARR and name in group}
    results.about.recorded = {name: there.get(name, results.recorded.get(name)) for name in kinds}
    return results


def _of_dataset(place: Path) -> Any:
    """Results, or a labelled Dataset, in memory."""
    with naming(place), _opened(place) as found:
        if SAID not in found.attrs:
            raise MalformedBody(f"{os.fspath(place)!r} holds no results of a run")
        if not str(found.attrs[SAID]).startswith("{"):  # the version, of what was not written by save
            return _with_errors(found.load())
        said = _parsed(found.attrs[SAID], place)
        return _results(said, _arrays(said, map(str, found.variables), lambda name: found[name].values), place)


def writable(made: Any) -> Any:
    """A Dataset whose attributes any file can hold."""
    return made.assign_attrs({name: json.dumps(value) for name, value in made.attrs.items() if isinstance(value, list)})


def _with_errors(found: Any) -> Any:
    """A Dataset of a sweep with the list of errors that it had: files hold text, an array, or one of a list."""
    errors = found.attrs.get("errors")
    if errors is None:
        return found
    if isinstance(errors, str):
        errors = json.loads(errors) if errors.startswith("[") else [errors]
    return found.assign_attrs(errors=[str(error) for error in errors])


@contextlib.contextmanager
def _opened(place: Path) -> Iterator[Any]:
    if place.suffix == ".zarr":
        with xarray().open_zarr(place, consolidated=False, zarr_format=3, decode_times=False) as found:
            yield found
    else:
        with xarray().open_dataset(place, engine="h5netcdf", decode_times=False) as found:
            yield found


def _parsed(text: Any, place: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(str(text)))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedBody(f"{os.fspath(place)!r} holds no results of a run: {error}") from error


def _others(said: Mapping[str, Said], arrays: Sequence[np.ndarray], there: Container[str]) -> dict[str, np.ndarray]:
    """The arrays that are not in a file under the name of an output or recorded value, as they are."""
    labels = labels_of(said)
    values = ((said[key][name], label) for (key, name), label in labels.items())
    known = {value.get("place") for value, label in values if label in there and value["kind"] in PLAIN}
    return {VALUE.format(k): array for k, array in enumerate(arrays) if k not in known}


def _arrays(said: Mapping[str, Any], names: Iterable[str], array: Callable[[str], np.ndarray]) -> dict[int, np.ndarray]:
    """The arrays of a file by their places: those of outputs and recorded values have names, others numbers."""
    places = {label: said[key][name].get("place") for (key, name), label in labels_of(said).items()}
    numbered = ((name, NUMBERED.fullmatch(name)) for name in names)
    found = {name: places.get(name, number and int(number[1])) for name, number in numbered}
    return {place: array(name) for name, place in found.items() if place is not None}


PLAIN = ("array", "scalar", "float", "int", "bool")
"""Kinds of values that are one array."""


def _variable(name: str, array: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    return tuple(f"{name}_{axis}" for axis in range(array.ndim)), array


def _place(path: Any) -> Path:
    place = as_path(path, "a file of results")
    if place.suffix not in SUFFIXES:
        table = "; a table is written by results.to_xarray().to_dataframe().to_csv(path)" * (place.suffix == ".csv")
        raise LoopError(f"results are kept in files of type {', '.join(SUFFIXES)}; got {os.fspath(place)!r}{table}")
    return place


def write_dataset(made: Any, place: Path) -> None:
    """Write a Dataset beside what it replaces, and put it there when it is whole.

    Raises
    ------
    LoopError
        A package is missing.
    FileError
        It cannot be written; what was there is unchanged.
    """
    package = _need(place)
    target = Path(os.path.realpath(place))
    beside = target.with_name(f".mdf-loop-{os.urandom(8).hex()}{place.suffix}")
    with naming(place):
        try:
            if package == "zarr":
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # zarr's, about texts in other programs
                    made.to_zarr(beside, mode="w", consolidated=False, zarr_format=3)
            else:
                made.to_netcdf(beside, engine="h5netcdf")
            _put(beside, target)
        finally:
            _remove(beside)


def _need(place: Path) -> str:
    """The package that such a file needs; xarray is there as well."""
    xarray()
    package = "zarr" if place.suffix == ".zarr" else "h5netcdf"
    needed(package, f"a {place.suffix} file needs {package}", "sweep")
    return package


def _put(beside: Path, target: Path) -> None:
    if beside.is_dir() and target.exists():
        old = target.with_name(f"{beside.name}.old")
        os.replace(target, old)
        os.replace(beside, target)
        _remove(old)
    else:
        os.replace(beside, target)
    sync_folder(target)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
