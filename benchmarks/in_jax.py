"""The share of what has a form in JAX: ONNX's node cases of numbers, and the loops that PyTorch and JAX exported.

It takes some minutes: each case is traced, none is run.
"""

import collections
import sys
import warnings
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from exported import models  # noqa: E402
from jax_laws import given_of, numeric_cases, traced  # noqa: E402

from mdf_loop import backend  # noqa: E402

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


def exports():
    """The exported loops."""
    for work in models():
        body = backend.prepare(work.model).body
        yield work.name, body, {**body.defaults, **work.inputs}


def main():
    warnings.simplefilter("ignore")
    for title, works in (("exported loops", exports()), ("node cases of numbers", cases())):
        found = dict(refusals(works))
        refused = {name: why for name, why in found.items() if why}
        print(f"{title}: {len(found) - len(refused)} of {len(found)}, {100 * (1 - len(refused) / len(found)):.0f} %")
        operators = collections.Counter(_operator(why) for why in refused.values())
        for operator, count in operators.most_common():
            name, why = next((name, why) for name, why in refused.items() if _operator(why) == operator)
            print(f"  {count:4} {operator}: {name}: {why[:150]}")


def _operator(why):
    text = why.partition(": ")[2] or why
    return text.split()[0].strip("'").rstrip(":") if " has no form" in text else "other"


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()
