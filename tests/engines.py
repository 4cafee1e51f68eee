"""The engines that tests run on: those that run here, but JAX, which has laws of its own."""

from mdf_loop.settings.engines import ENGINES as ALL
from mdf_loop.settings.engines import available_engines

ENGINES = tuple(name for name in available_engines() if not ALL[name].by_jax)
