"""The engines that tests run on: those that give the same results.  JAX has laws of its own."""

from mdf_loop.settings.engines import agreeing_engines

ENGINES = agreeing_engines()
