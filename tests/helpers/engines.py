"""The engines that tests run on: those that give the same results.  JAX has laws of its own."""

from mdf_loop.settings.engines import agreeing_engines

ENGINES = agreeing_engines()
OTHERS = tuple(engine for engine in ENGINES if engine != "interpret")
"""Those that are compared with the interpreter."""
SETTLED = tuple(engine for engine in OTHERS if engine != "auto")
"""Those that run everything in one way, whatever the clock says, for laws of many cases: ``auto`` is one of them at a time."""
