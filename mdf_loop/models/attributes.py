"""What is written for attributes that people look for on a model or on results, and that these do not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mdf_loop.errors import did_you_mean

if TYPE_CHECKING:
    from mdf_loop.models.model import Model
    from mdf_loop.models.results import Results

_OF_MODELS = {
    "run simulate execute predict forward step evaluate apply call sample": "a model is called: results = model(x=...)",
    "sweep fit simulator to_onnx to_jax": "write mdf_loop.{0}(model, ...)",
    "parameters params weights": "model.inputs has them",
    "constants": "the constants of a model of ONNX or OpenVINO are fixed: mdf_loop.convert(model) makes one of MDF with others",
    "reset initialize": "leave it out: each call begins with the initial values",
    "summary describe info": "write print(model.explain())",
    "check verify bench report": "it is a command: mdf-loop {0} FILE",
    "record steps time_increment collect trials every record_to seed": "it is an argument of a call: model({0}=...)",
}

_OF_RESULTS = {
    "outputs data output result results": "write results[{1!r}]; list(results) has the names",
    "to_pandas to_dataframe df": "write results.to_xarray().to_dataframe()",
    "to_csv to_excel to_parquet to_json describe head tail columns loc iloc corr": "write results.to_xarray().to_dataframe().{0}",
    "sel isel where groupby dims coords median quantile to_netcdf to_zarr to_dict": "write results.to_xarray().{0}",
    "time times t": "results.to_xarray() has them as coordinates of what is recorded or collected",
    "hist line scatter": "write results.plot({1!r})",
    "history trajectory trace": "name values to record in the call, record=['x'], and read results.recorded['x']",
}


def missing_in_model(name: str, model: Model) -> AttributeError:
    """The error for an attribute that a model does not have."""
    if hasattr(type(model), name):
        object.__getattribute__(model, name)  # a property, whose own error it is
    is_asked = name[0] != "_" and "source" in vars(model)  # by a person, of a model that is complete
    said = _instead(_OF_MODELS, name)
    if is_asked and name in model.inputs:
        said = f"it is an input: model({name}=...) gives it a value, and model.inputs[{name!r}].default is its own one"
    elif is_asked and name in model.outputs:
        said = f"it is an output: write model(...)[{name!r}]"
    return AttributeError(f"a model has no attribute {name!r}{said and f'; {said}'}", name=name, obj=model)


def missing_in_results(name: str, results: Results) -> AttributeError:
    """The same of results."""
    first, about = next(iter(results), "x"), vars(vars(results).get("about", results))  # pickle asks before there is one
    own = {**dict.fromkeys(about, "write results.about.{0}"), **dict.fromkeys(results, "write results[{0!r}]")}
    said = own[name].format(name) if name in own else _instead(_OF_RESULTS, name, first)
    if not said and name in dir(np.ndarray):
        said = f"write results[{first!r}].{name} for one output; results.to_xarray() has labelled arrays of all"
    known = [*results, *(each for each in vars(type(results)) if each[0] != "_")]
    meant = f"; {said}" if said else did_you_mean(name, known)
    return AttributeError(f"results have no attribute {name!r}{meant}", name=name, obj=results)


def _instead(table: Mapping[str, str], name: str, first: str = "") -> str:
    return next((said.format(name, first) for names, said in table.items() if name in names.split()), "")
