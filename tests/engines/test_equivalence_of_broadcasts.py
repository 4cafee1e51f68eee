"""Every engine gives what ``interpret`` gives where operands have other shapes than the result, wherever they come from."""

import numpy as np
import pytest
from equivalence import assert_same_on_every_engine

from mdf_loop import loop

NODES = """
    d1 = Sub (a, b) sub = Add (y, d1)
    m1 = Max (b, a) max = Sub (y, m1)
    c1 = Less (a, b) l1 = Cast <to = TO> (c1) less = Add (y, l1)
    c2 = Equal (b, a) e1 = Cast <to = TO> (c2) equal = Sub (e1, y)
    c3 = Greater (a, b) w1 = Where (c3, a, b) chosen = Sub (y, w1)
    p1 = Mul (a, b) p2 = Sub (p1, a) p3 = Min (p2, b) chain = Sub (y, p3)
"""
RESULTS = ("sub", "max", "less", "equal", "chosen", "chain")
SHAPES = [((40, 6), (40, 1)), ((40, 1), (6,)), ((40, 6), (1, 6)), ((40, 6), ()), ((1, 6), (40, 1))]
KINDS = {"double": (np.float64, 11), "float": (np.float32, 1), "int64": (np.int64, 7)}


def declared(kind, shape):
    return f"{kind}[{','.join(map(str, shape))}]" if shape else kind


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("origin", ["constant", "outside", "of the iteration"])
def test_operands_of_other_shapes(shapes, kind, origin, rng):
    dtype, to = KINDS[kind]
    first, second = (np.asarray(rng.integers(-3, 4, shape), dtype) for shape in shapes)
    given, constants, nodes = {"first": first, "second": second}, "", NODES.replace("TO", str(to))
    if origin == "constant":
        del given["second"]
        numbers = ", ".join(str(x) for x in second.ravel())
        constants = f"{declared(kind, second.shape)} second = {{{numbers}}}, "
    nodes = (
        f"b = Sub (second, n) {nodes}"
        if origin == "of the iteration"
        else nodes.replace("b)", "second)").replace("(b,", "(second,")
    )
    text = f"""wide (int64 i, bool go, {kind}[40,6] y) => (bool go_out, y_out, {", ".join(RESULTS)})
        <{constants}{kind} low = {{-5}}, {kind} high = {{5}}> {{
        go_out = Identity (go) n = ReduceMax <keepdims = 0> (y) a = Add (first, n) {nodes}
        t = Sum ({", ".join(RESULTS)}) y_out = Clip (t, low, high) }}"""
    start = np.asarray(rng.integers(-3, 4, (40, 6)), dtype)
    assert_same_on_every_engine(lambda: loop(60, True, start, body={"onnx": text, "opset": 20}, **given))
