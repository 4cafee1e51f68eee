"""Commands about the installation: ``ops``, ``doctor`` and ``cache``."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from mdf_loop.cli import parameters
from mdf_loop.cli.console import as_json, console, table
from mdf_loop.errors import ArgumentError, did_you_mean, let_through

if TYPE_CHECKING:
    from mdf_loop.ops.registry import Kernel


def ops(
    filter_: Annotated[str, typer.Argument(metavar="[FILTER]", help="A part of the name, such as reduce.")] = "",
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """List the operators and functions that a model can use: all, or those with FILTER in their name.

    ONNX text calls operators, equations call functions by their names, and functions of MDF are called by nodes (function: ...).
    """
    rows = [*_operators(), *_functions()]
    found = [row for row in rows if any(filter_.lower() in name.lower() for name in (row["operator"], *row.get("also", ())))]
    if not found:
        names = [row["operator"].partition("(")[0] for row in rows]
        raise ArgumentError(f"no operator or function has {filter_!r} in its name{did_you_mean(filter_, names, 3)}")
    if json_:
        as_json(found)
        return
    out, operators = console(), table("operator", "domain", "versions from", "kernel", "in loops")
    functions = table("function", "in", "is computed as")
    for row in found:
        if "becomes" in row:
            functions.add_row(escape(row["operator"]), row["domain"], escape(row["becomes"]))
        else:
            versions = ", ".join(map(str, row["versions"]))
            operators.add_row(row["operator"], row["domain"], versions, row["kernel"], row["in_loops"])
    for shown in (operators, functions):
        if shown.row_count:
            out.print(shown)


def _functions() -> list[dict[str, Any]]:
    """The functions that equations and nodes call by their names alone, with what they become."""
    from mdf_loop.functions.psyneulink import functions_of_nodes
    from mdf_loop.readers.expressions.formula_names import functions_of_equations, meant_by

    rows = [
        {"operator": call, "domain": "equations", "becomes": text, "also": meant_by(call.partition("(")[0])}
        for call, text in functions_of_equations().items()
    ]
    return rows + [{"operator": name, "domain": "nodes", "becomes": text} for name, text in functions_of_nodes().items()]


def _operators() -> list[dict[str, Any]]:
    from mdf_loop.kernels import load_kernels
    from mdf_loop.ops.registry import INTERNAL_DOMAINS, KERNELS

    load_kernels()
    return [
        {
            "operator": op,
            "domain": domain or "ai.onnx",
            "versions": [v.since for v in versions],
            "kernel": "native" if all(v.native for v in versions) else "onnx.reference",
            "in_loops": way_in_loops(versions),
        }
        for (domain, op), versions in sorted(KERNELS.items())
        if domain not in INTERNAL_DOMAINS
    ]


EXTRAS = {
    "fit": (("scipy",), "parameters fitted to data"),
    "infer": (("sbi", "bayesflow", "torch"), "tests and examples of inference"),
    "jax": (("jax",), "gradients and graphics processors by JAX"),
    "jit": (("llvmlite",), "loops as machine code"),
    "openvino": (("defusedxml",), "OpenVINO models"),
    "text": (("re2",), "regular expressions"),
    "plot": (("matplotlib",), "plots"),
    "explore": (("panel",), "models with sliders"),
    "notebook": (("tqdm",), "progress in notebooks"),
    "sweep": (("xarray", "h5netcdf", "zarr"), "sweeps and results as labelled arrays"),
    "distributed": (("dask", "distributed"), "sweeps on clusters"),
}
"""What each extra needs, and what it is for."""

OTHERS = {"onnxruntime": "verify and bench compare with it", "scipy": "faster filters and convolutions"}
"""Packages that are used where they are there."""


def doctor(json_: parameters.Json = False, debug: parameters.Debug = False) -> None:
    """Show what is installed and what works: versions, extras, engines, tools, and a loop in each engine."""
    found = diagnosis()
    if json_:
        as_json(found)
        return
    out = console()
    for title, rows in found.items():
        made = table(title, "", "")
        for name, (state, more) in rows.items():
            colour = {"no": "yellow", "fails": "red"}.get(state, "green")
            made.add_row(name, f"[{colour}]{escape(state)}[/]", escape(more))
        out.print(made)


def diagnosis() -> dict[str, dict[str, tuple[str, str]]]:
    """What there is: a state and what to say of it, by name, by group."""
    import mdf_loop

    versions = {"mdf-loop": (mdf_loop.__version__, str(Path(mdf_loop.__file__).parent))}
    versions["Python"] = platform.python_version(), sys.executable
    versions |= {name: (_version(name), "") for name in ("numpy", "onnx", "modeci-mdf", "graph-scheduler", "ml_dtypes")}
    extras = {name: _extra(name, packages, what) for name, (packages, what) in EXTRAS.items()}
    others = {name: (_version(name), what) for name, what in OTHERS.items()}
    dot = shutil.which("dot")
    tools = {"dot": ("yes" if dot else "no", dot or "pictures are drawn with matplotlib; Graphviz is not needed")}
    return {"version": versions, "extra": extras, "package": others, "engine": _engines(), "tool": tools, "cache": _cache()}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "no"


def _extra(name: str, packages: tuple[str, ...], what: str) -> tuple[str, str]:
    from mdf_loop.settings.engines import install_line

    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return ("no", f"{what}: {install_line(name)}") if missing else ("yes", what)


def _engines() -> dict[str, tuple[str, str]]:
    """Each engine, tried with a loop of a hundred iterations."""
    import mdf_loop
    from mdf_loop.options import options
    from mdf_loop.settings.engines import ENGINES, available_engines, for_machine_code, install_line

    body, found = "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, x_0) }", {}
    for name in ENGINES:
        if name not in available_engines():
            found[name] = "no", for_machine_code() if ENGINES[name].compiles else f"{EXTRAS[name][1]}: {install_line(name)}"
            continue
        try:
            with options(engine=name):
                total: Any = mdf_loop.loop(100, True, 0.0, body=body, x_0=1.0)
            found[name] = ("yes", "") if total == 100 else ("fails", f"1 + ... + 1 is {total}, not 100")
        except Exception as error:
            let_through(error)
            found[name] = "fails", f"{type(error).__name__}: {error}"
    return {**found, "MDF's own": _engine_of_mdf()}


def _engine_of_mdf() -> tuple[str, str]:
    """MDF's engine, which imports torch where that is installed."""
    try:
        importlib.import_module("modeci_mdf.execution_engine")
    except Exception as error:
        let_through(error)
        return "fails", f"{type(error).__name__}: {error}"
    return "yes", ""


def _cache() -> dict[str, tuple[str, str]]:
    """What is kept: bodies in memory, for as long as the process lives, and machine code on disk."""
    from mdf_loop.calls.content_cache import MOST, MOST_BYTES

    bodies = f"up to {MOST}", f"{MOST_BYTES / 2**20:.0f} MiB, in memory"
    found = state()
    return {"bodies": bodies, "machine code": ("no" if found["refusal"] else "on disk", in_words(found))}


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete the stored code.")] = False,
    json_: parameters.Json = False,
    debug: parameters.Debug = False,
) -> None:
    """Show where machine code is stored between processes, and its size.

    MDF_LOOP_CACHE names another folder, or "off"; MDF_LOOP_CACHE_BYTES says how much may be kept.
    """
    from mdf_loop.backends.llvm.linking.object_code import disk

    kept = disk()
    deleted = kept.clear() if kept is not None and clear else 0
    found = state()
    if json_:
        as_json({**found, "deleted": deleted} if clear else found)
        return
    out = console()
    if clear:
        out.print(f"deleted {_entries(deleted)}", highlight=False)
    out.print(in_words(found), markup=False, highlight=False, soft_wrap=True)


def state() -> dict[str, Any]:
    """``path`` (None if there is none), ``entries``, ``bytes``, ``most_bytes``, and ``refusal``: why it is not used."""
    from mdf_loop.backends.llvm.linking.object_code import FOLDER, disk

    kept = disk()
    sizes = [] if kept is None else [each.size for each in kept.kept()]
    found = {"path": None if kept is None else str(kept.path), "entries": len(sizes), "bytes": sum(sizes)}
    if kept is None:
        return {**found, "most_bytes": 0, "refusal": f"{FOLDER} is off, or there is no home folder"}
    return {**found, "most_bytes": kept.most_bytes, "refusal": kept.refusal()}


def in_words(found: dict[str, Any]) -> str:
    """A state in one line."""
    if not found["path"]:
        return f"machine code is not kept: {found['refusal']}"
    if found["refusal"]:
        return f"{found['path']} is not used: {found['refusal']}"
    return f"{found['path']}: {_entries(found['entries'])}, {found['bytes']:,} bytes of at most {found['most_bytes']:,}"


def _entries(count: int) -> str:
    return f"{count:,} {'entry' if count == 1 else 'entries'}"


def way_in_loops(versions: Sequence[Kernel]) -> str:
    """How the versions of an operator run in a loop, in words: ``"batched"``, ``"one by one"`` and the like."""
    if all(kernel.native and kernel.bind is not None for kernel in versions):
        return "control flow"
    if not versions[-1].pure:
        return "one by one, in order"
    return "batched" if versions[-1].batch is not None else "one by one"
