"""The kernels: one function for each operator and version, grouped by what it works on.

Importing this package imports every module in it, so that their decorators run.
"""

import importlib
import pkgutil

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
