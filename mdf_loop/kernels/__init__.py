"""The kernels: one function for each operator and version, grouped by what it works on.

The modules are imported when the first body is made ready, not with the package: most of the time that an
import of mdf_loop would take is theirs.
"""

import functools
import importlib
import pkgutil

from mdf_loop.ops.registry import KERNELS, register
from mdf_loop.ops.rooms import kernel_modules
from mdf_loop.system.starting import importing


@functools.cache
def load_kernels() -> None:
    """Import every module of kernels, here and in the rooms that are there, so that their decorators fill the table.

    Kernels that a user registered before stay in place of ours.
    """
    given = [entry for versions in KERNELS.values() for entry in versions]
    with importing():
        load_functions()
        _import_all(f"{__name__}.definitions")
    for entry in given:
        if all(entry.run is not ours.run for ours in KERNELS[entry.domain, entry.op]):
            register(entry)


@functools.cache
def load_functions() -> None:
    """Import the kernels without the definitions beside them, which need their rows in the table."""
    for group in ("numbers", "arrays", "networks", "mdf"):
        _import_all(f"{__name__}.{group}")
    for name in kernel_modules():
        importlib.import_module(name)
    importlib.import_module(f"{__name__}.reference").register_reference_kernels()  # last: kernels of our own go first


def _import_all(package: str) -> None:
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
