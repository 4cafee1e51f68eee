"""The engines: a table of what each does, which of them run here, and how to install what is missing."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from mdf_loop.errors import LoopError


@dataclasses.dataclass(frozen=True)
class Engine:
    """How an engine runs loops and graphs.

    Attributes
    ----------
    plans : bool
        Whether it does anything else than running node by node.
    compiles : bool
        Whether what has a Step is made into machine code.
    compiles_what_pays : bool
        Whether what has taken, or will take, longer than compiling it is made into machine code.
    interprets_short_loops : bool
        Whether loops that are over before they are planned are run node by node.
    interprets_first_calls : bool
        Whether a program is written only for what is called again.
    device : str
        The module of a back end that runs what has a form in it as a whole, on the device that it finds; empty if there is none.
    title : str
        What messages call that back end.
    needs : str
        The package that it needs, if any.
    """

    plans: bool = True
    compiles: bool = False
    compiles_what_pays: bool = False
    interprets_short_loops: bool = False
    interprets_first_calls: bool = False
    device: str = ""
    title: str = ""
    needs: str = ""

    @functools.cached_property
    def on_device(self) -> Any:
        """The module: its ``Function`` of a source, what runs one (``run_alone``, ``vmapped``), and what they need."""
        return importlib.import_module(self.device)


ENGINES = {
    "auto": Engine(compiles_what_pays=True, interprets_short_loops=True, interprets_first_calls=True),
    "interpret": Engine(plans=False),
    "numpy": Engine(),
    "jit": Engine(compiles=True, interprets_short_loops=True, needs="llvmlite"),
    "jax": Engine(device="mdf_loop.backends.jax.function", title="JAX", needs="jax"),
}
"""The engines by name; no other module names them."""

DEFAULT, DEFINITION = "auto", next(name for name, engine in ENGINES.items() if not engine.plans)
"""The engine of a run where none is chosen, and the one that says what is right."""


@functools.cache
def available_engines() -> tuple[str, ...]:
    """The engines that run here."""
    return tuple(name for name, e in ENGINES.items() if not e.needs or importlib.util.find_spec(e.needs) is not None)


def agreeing_engines() -> tuple[str, ...]:
    """The engines that run here and give the same results, random numbers included: those on devices draw their own."""
    return tuple(name for name in available_engines() if not ENGINES[name].device)


def settled_engine(compiles: bool) -> str:
    """An engine that runs everything in one way, whatever the clock says; one that compiles only where there is one."""
    wanted = [name for name in agreeing_engines() if ENGINES[name].plans and not ENGINES[name].compiles_what_pays]
    return next((name for name in wanted if ENGINES[name].compiles is compiles), wanted[0])


def can_compile() -> bool:
    """Whether an engine that compiles runs here."""
    return any(ENGINES[name].compiles for name in available_engines())


def install_line(extra: str) -> str:
    """The command that adds an extra: the package index has none of them, a checkout does.

    >>> install_line("openvino").partition("[")[2]
    'openvino]"'
    """
    home = Path(__file__).parent.parent.parent
    is_checkout = (home / "setup.cfg").is_file()
    return f'pip install -e "{home if is_checkout else "PATH-OF-A-CHECKOUT"}[{extra}]"'


def for_machine_code() -> str:
    """What llvmlite would bring, and how to get it."""
    return f"loops as machine code, those of small steps 10 to 100 times as fast: {install_line('jit')}"


def needed(module: str, who: str, extra: str, refusal: type[LoopError] = LoopError) -> Any:
    """A module of a package that comes with an extra; ``who`` says what needs it, as in "plots need matplotlib".

    Raises
    ------
    LoopError
        It is not installed; says how to install it.
    """
    try:
        importlib.import_module(module.partition(".")[0])
        return importlib.import_module(module)
    except ImportError as error:
        raise refusal(f"{who}: {install_line(extra)}") from error
