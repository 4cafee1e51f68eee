"""The share of what has a form in JAX: models of the gallery, exported loops, ONNX's node cases of numbers alone and in a Loop.

It takes some minutes: each case is traced, none is run.
"""

import collections
import sys
import warnings
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / "tests" / shared) for shared in ("helpers", "cases"))]

from exported import models  # noqa: E402
from jax_laws import given_of, has_open_length, in_a_loop, numeric_cases, traced  # noqa: E402

import mdf_loop  # noqa: E402
from mdf_loop import backend  # noqa: E402
from mdf_loop.errors import LoopError  # noqa: E402

jax.config.update("jax_enable_x64", True)


def refusals(works):
    """By name: why something has no form, or nothing."""
    for name, body, given in works:
        try:
            traced(jax, body, given)
        except Exception as error:
            yield name, " ".join(str(error).split("\n", 1)[0].split())
        else:
            yield name, ""


def cases():
    """The node cases: name, graph, values of its inputs."""
    for name, case in numeric_cases().items():
        body = backend.prepare(case.model).body
        yield name, body, given_of(case, body)


def looped():
    """Those with static shapes as the body of a Loop that gathers a row of each input in each iteration."""
    for name in numeric_cases():
        if not has_open_length(name):
            body, given, _ = in_a_loop(name)
            yield name, body, given


def gallery():
    """By name: why a model of the gallery has no form, or nothing."""
    paths = sorted(
        path for path in (HERE.parent / "examples" / "gallery").iterdir() if path.suffix in (".yaml", ".json", ".onnx")
    )
    for path in paths:
        model = mdf_loop.prepare(path)
        given = {name: np.ones(_lengths(port), port.type.dtype) for name, port in model.inputs.items() if port.required}
        try:
            f = mdf_loop.to_jax(model, max_steps=1000)
            jax.eval_shape(lambda f=f, given=given: f(key=0, **given))
        except LoopError as error:
            yield path.name, " ".join(str(error).split("\n", 1)[0].split())
        else:
            yield path.name, ""


def _lengths(port):
    return [n if isinstance(n, int) else 2 for n in port.type.shape or ()]


def exports():
    """The exported loops."""
    for work in models():
        body = backend.prepare(work.model).body
        yield work.name, body, {**body.defaults, **work.inputs}


def main():
    warnings.simplefilter("ignore")
    show("models of the gallery", dict(gallery()))
    show("exported loops", dict(refusals(exports())))
    found = dict(refusals(cases()))
    show("node cases of numbers", found)
    show("node cases with static shapes", {name: why for name, why in found.items() if not has_open_length(name)}, 0)
    show("node cases with static shapes, in a Loop", dict(refusals(looped())))


def show(title, found, most=99):
    """How many of these have a form, and up to so many reasons why others have none."""
    refused = {name: why for name, why in found.items() if why}
    print(f"{title}: {len(found) - len(refused)} of {len(found)}, {100 * (1 - len(refused) / len(found)):.0f} %")
    for operator, count in collections.Counter(_operator(why) for why in refused.values()).most_common(most):
        name, why = next((name, why) for name, why in refused.items() if _operator(why) == operator)
        print(f"  {count:4} {operator}: {name}: {why[:150]}")


def _operator(why):
    text = why.partition(": ")[2] or why
    return text.split()[0].strip("'").rstrip(":") if " has no form" in text else "other"


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
