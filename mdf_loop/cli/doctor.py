"""``mdf-loop doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import sys
from pathlib import Path
from typing import Any

from rich.markup import escape

from mdf_loop.cli.parameters import Debug, Json
from mdf_loop.cli.tables import console, table
from mdf_loop.cli.values import as_json
from mdf_loop.errors import let_through

EXTRAS = {
    "fit": (("scipy",), "parameters fitted to data"),
    "infer": (("sbi", "bayesflow", "torch"), "tests and examples of inference"),
    "jit": (("llvmlite",), "loops as machine code"),
    "openvino": (("defusedxml",), "OpenVINO models"),
    "text": (("re2",), "regular expressions"),
    "plot": (("matplotlib",), "plots"),
    "notebook": (("tqdm",), "progress in notebooks"),
    "sweep": (("xarray", "h5netcdf", "zarr"), "sweeps and results as labelled arrays"),
    "distributed": (("dask", "distributed"), "sweeps on clusters"),
}
"""What each extra needs, and what it is for."""

OTHERS = {"onnxruntime": "verify and bench compare with it", "scipy": "faster filters and convolutions"}
"""Packages that are used where they are there."""


def doctor(json_: Json = False, debug: Debug = False) -> None:
    """Say what is installed and what works: versions, extras, engines, tools, and a loop that is run in each engine."""
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
    tools = {"dot": ("yes" if dot else "no", dot or "mdf-loop draw writes Mermaid text; Graphviz would make .svg and .png")}
    return {"version": versions, "extra": extras, "package": others, "engine": _engines(), "tool": tools, "cache": _cache()}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "no"


def _extra(name: str, packages: tuple[str, ...], what: str) -> tuple[str, str]:
    from mdf_loop.installing import install_line

    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    return ("no", f"{what}: {install_line(name)}") if missing else ("yes", what)


def _engines() -> dict[str, tuple[str, str]]:
    """Each engine, tried with a loop of a hundred iterations."""
    import mdf_loop
    from mdf_loop.engines import ENGINES, available_engines
    from mdf_loop.installing import JIT
    from mdf_loop.options import options

    body, found = "b (int64 i, bool c, double x) => (bool c, double y) { y = Add (x, x_0) }", {}
    for name in ENGINES:
        if name not in available_engines():
            found[name] = "no", JIT
            continue
        try:
            with options(engine=name):
                total: Any = mdf_loop.loop(100, True, 0.0, body=body, x_0=1.0)
            found[name] = ("yes", "") if total == 100 else ("fails", f"1 + ... + 1 is {total}, not 100")
        except Exception as error:
            let_through(error)
            found[name] = "fails", f"{type(error).__name__}: {error}"
    return found


def _cache() -> dict[str, tuple[str, str]]:
    """What is kept: bodies in memory, for as long as the process lives, and machine code on disk."""
    from mdf_loop.cache import MOST, MOST_BYTES
    from mdf_loop.cli.cache import in_words, state

    bodies = f"up to {MOST}", f"{MOST_BYTES / 2**20:.0f} MiB, in memory"
    found = state()
    return {"bodies": bodies, "machine code": ("no" if found["refusal"] else "on disk", in_words(found))}
