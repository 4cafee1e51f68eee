"""Datasets of xarray that say of a name that is not there what there is, and how to get it."""

from __future__ import annotations

from typing import Any

import xarray

from mdf_loop.errors import MissingOutput, did_you_mean


class Dataset(xarray.Dataset):
    """Labelled results, as :meth:`Results.to_xarray` and :func:`mdf_loop.sweep` give them."""

    __slots__ = ()

    def __getitem__(self, name: Any) -> Any:
        try:
            return super().__getitem__(name)
        except KeyError:
            if not isinstance(name, str):
                raise
        raise MissingOutput(f"there is no value called {name!r}{self._what_there_is(name)}")

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError as error:
            if name.startswith("_"):
                raise
            said = f"{error}{self._what_there_is(name)}"
        raise AttributeError(said, name=name, obj=self)

    def _what_there_is(self, name: str) -> str:
        known, id = [*map(str, self.variables)], name.rpartition(".")[2]
        if meant := f"; did you mean {id!r}?" if id in known else did_you_mean(name, known):
            return meant
        return f"; there are {', '.join(known)}. A sweep keeps outputs: write an output port, such as {id}_out: {{value: {id}}}"
