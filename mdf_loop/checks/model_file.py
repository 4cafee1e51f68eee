"""What is wrong with a model file, found without running it: everything at once, with lines and suggestions."""

from __future__ import annotations

import contextlib
import copy
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mdf_loop.backend import prepare
from mdf_loop.checks.findings import ERROR, NOTE, WARNING, Finding, Salvaged, salvaged
from mdf_loop.checks.loop_bodies import counted_results
from mdf_loop.checks.trial import without, wrong_when_run, wrong_with_inputs
from mdf_loop.checks.whole_graphs import wrong_with_graph
from mdf_loop.convert.file_text import decoded, line_of, parse
from mdf_loop.convert.loading import find_files, load, model_as_written, model_of
from mdf_loop.convert.locating import line_of_error, line_of_names, thing_of, without_line
from mdf_loop.convert.weights import SUFFIXES
from mdf_loop.errors import LoopError, LoopWarning, hints_of
from mdf_loop.readers.expressions.equations import TAU
from mdf_loop.readers.mdf.file_structure import wrong_with_model
from mdf_loop.readers.mdf.typed import has_conditions
from mdf_loop.readers.model_files import read_bytes

MOST = 100
"""How many errors in the structure of a model are reported."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong.

    Attributes
    ----------
    kind : {"error", "warning", "note"}
        The model cannot run; it probably does something else than was meant; something of it cannot be looked at before
        an error is corrected.
    message : str
    line : int or None
        Where in the file.
    """

    kind: str
    message: str
    line: int | None = None


def check(path: Path, given: Mapping[str, Any] | None = None) -> list[Problem]:
    """Look at a model file.

    Parameters
    ----------
    path : Path
        A model file.  Of an MDF file the keys, names, functions, bodies, and declared types are looked at, and which nodes
        nothing reads; where nothing is wrong so far, it is evaluated with its loops cut short, which finds what a run would
        refuse.  Of others whether they can be read, and the types that they declare.
    given : mapping, optional
        Values for inputs that have none in the model, by name, as for :func:`mdf_loop.run`.

    Returns
    -------
    list of Problem
        In the order of the file; empty if nothing is wrong.
    """
    if path.suffix.lower() not in SUFFIXES:
        return _unreadable(path)
    noted = list[Problem]()
    try:
        text = decoded(read_bytes(path, "a model"))
        content = parse(text, path.suffix.lower(), lambda line, said: noted.append(Problem(WARNING, said, line)))
    except (LoopError, ValueError) as error:
        found = re.search(r"line (\d+)", str(error))
        line = int(found.group(1)) if found else None
        return [Problem(ERROR, without_line(str(error), path, line), line)]
    with warnings.catch_warnings():  # which looking again would repeat
        warnings.simplefilter("ignore", LoopWarning)
        wrong = [*itertools.islice(wrong_with_model(content), MOST)]
        rest = salvaged(content, wrong)
    problems = [*noted, *(Problem(ERROR, str(error), line_of(text, error.place)) for error in wrong)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", LoopWarning)
        warnings.filterwarnings("ignore", f"equations: {TAU[:12]}", LoopWarning)  # which is a finding
        problems += _of_content(rest, path, given or {}) if rest is not None else []
    problems += [
        Problem(WARNING, str(each.message)) for each in warned if not any(str(each.message) in p.message for p in problems)
    ]
    return sorted(dict.fromkeys(problems), key=lambda problem: problem.line or 0)


def _unreadable(path: Path) -> list[Problem]:
    try:
        if path.suffix.lower() == ".onnx":
            prepare(path)  # which looks at its types
        else:
            load(path)
    except LoopError as error:
        return [Problem(ERROR, str(error), line_of_error(path, error))]
    return []


def _of_content(rest: Salvaged, path: Path, given: Mapping[str, Any]) -> Iterator[Problem]:
    """What is wrong with what a model says whose structure is sound, or has become so."""
    known = None
    try:
        model = model_of(copy.deepcopy(rest.content), path)
    except LoopError as error:
        known = Problem(ERROR, str(error), line_of_error(path, error))
        yield known
        model = None
        with contextlib.suppress(Exception):  # whatever MDF raises: there is nothing more to look at
            find_files(rest.content, path)  # no other files than those it may read
            model = model_as_written(rest.content)
        looked = "nothing else" if model is None else "of the rest only the bodies of loops"
        yield Problem(NOTE, f"{looked} can be checked before this is corrected", known.line)
    with contextlib.suppress(Exception):  # what the reader repairs and MDF refuses
        written = model_as_written(copy.deepcopy(rest.content))
        yield from [_located(each, path) for graph in written.graphs for each in counted_results(graph) if known is None]
    for graph in model.graphs if model is not None else ():
        missing = [*wrong_with_inputs(graph, given)] if known is None else []
        found = [*wrong_with_graph(graph, rest, known is None), *missing]
        wrong = [each.names for each in found if each.kind == ERROR and each not in missing]
        is_sound = (
            known is None and not rest.gaps and (not wrong or not has_conditions(graph)) and all(names[1:] for names in wrong)
        )
        of_run = [*wrong_when_run(*without({names[1] for names in wrong}, graph, given))] if is_sound else []
        for each in found:
            problem = _located(each if not _reads_text(each, of_run) else each._replace(kind=ERROR), path)
            if known is None or problem.line != known.line:
                yield problem
        for refused in of_run:
            if isinstance(refused, Finding):
                yield _located(refused, path)
            elif not _is_noted(refused, graph, found):
                yield _of_run(refused, graph, path)


def _reads_text(found: Finding, of_run: Sequence[Finding | LoopError]) -> bool:
    """Whether a run fails as it computes with the text that was found."""
    return any(isinstance(each, LoopError) and f"{found.names[-1]!r} is the text" in str(each) for each in of_run)


def _is_noted(error: LoopError, graph: Any, found: Sequence[Finding]) -> bool:
    """Whether something is reported already of the place where a run failed."""
    place = (str(graph.id), getattr(error, "mdf_node", ""), thing_of(error))
    if any(_reads_text(each, [error]) for each in found):
        return True
    return bool(place[-1]) and any(each.names == place and "nothing reads it" not in each.message for each in found)


_ODD = re.compile(r"expression (.+) cannot be evaluated: cannot convert float (NaN|infinity) to integer")
"""What MDF's engine makes of a value that is not finite, with which a run goes on."""


def _of_run(error: LoopError, graph: Any, path: Path) -> Problem:
    """What a run of the model would end with."""
    node, thing = getattr(error, "mdf_node", ""), thing_of(error)
    said = "; ".join([str(error), *hints_of(error)])
    place = "/".join(filter(None, (str(graph.id), node, thing)))
    if odd := _ODD.search(said):
        return Problem(WARNING, f"{place}: {odd[1]} is {odd[2].lower()}", line_of_error(path, error))
    return Problem(ERROR, said if said.startswith(f"{graph.id}/") or not node else f"{place}: {said}", line_of_error(path, error))


def _located(found: Finding, path: Path) -> Problem:
    return Problem(found.kind, found.message, line_of_names(path, found.names, found.message))
