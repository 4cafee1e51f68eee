"""The engines that tests run on: those that run here."""

from mdf_loop.settings.engines import available_engines

ENGINES = available_engines()
