"""What messages tell people to write is run: it gives numpy's number for what was written, in equations, ports and functions."""

import math
import re
import warnings

import numpy as np
import pytest

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import LoopError, MalformedBody
from mdf_loop.readers.python.instead import CALLS, OF_ONE
from tests.equations.test_words_of_equations import written

X = np.array([[0.5, -3.25, 2.0], [4.0, 1.0, -0.5]])

ARGUMENTS = {
    **{name: ["", "0", "axis=1", "axis=-1, keepdims=True"] for name in ("max", "min", "sum", "mean", "prod")},
    "reshape": ["3, 2", "(3, 2)", "-1"],
    "transpose": ["", "1, 0", "(1, 0)"],
    "clip": ["-1, 1", "0"],
    "round": ["", "1"],
    "astype": ["int", "dtype=int", "'float32'"],
    "std": ["ddof=1", "axis=0, ddof=1"],
    "repeat": ["2", "2, axis=0"],
    "take": ["1", "[0, 1]"],
    "dot": ["[1, 2, 3]"],
    "swapaxes": ["0, 1"],
}
"""Arguments of methods; others are called without any, and with an axis."""

UNLIKE = {"sort", "item", "squeeze"}
"""Methods that change their array, or have no meaning for a matrix of several elements."""

METHODS = [name for name in dir(np.ndarray) if name[0] != "_" and name not in UNLIKE and callable(getattr(np.ndarray, name))]


def in_equations(text):
    return mdf_loop.loop(1, True, v=0.0, x=X, body=f"v: v\ncollect y: {text}")[1][0]


def in_port(tmp_path, text):
    """What a port gives for the path of a loop in its node, which is X."""
    run = {"function": "onnx::Loop", "args": {"M": 2, "v": 0, "body": {"carried": {"v": "v"}, "collected": {"path": "rows[i]"}}}}
    parameters = {"rows": {"value": X.tolist()}, "run": run}
    nodes = {"n": {"parameters": parameters, "output_ports": {"o": {"value": text}}}}
    return mdf_loop.run(written(tmp_path, {"m": {"graphs": {"g": {"nodes": nodes}}}}))["o"]


def cure(run, *args):
    """What the error says to write; empty where it names no code."""
    with pytest.raises(LoopError) as caught:
        run(*args)
    found = re.search(r"; write (.*)$", str(caught.value))
    return found[1] if found else ""


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_arrays_lead_to_functions_that_give_the_same(tmp_path, name):
    for arguments in ARGUMENTS.get(name, ["", "0"]):
        written_as = cure(in_equations, f"x.{name}({arguments})")
        in_ports = cure(in_port, tmp_path, f"run.path.{name}({arguments})")
        assert in_ports == re.sub(r"\bx\b", "run.path", written_as)
        if written_as:
            meant = eval(f"x.{name}({arguments})", {"x": X})
            for found in (in_equations(written_as), in_port(tmp_path, in_ports)):
                assert np.shape(found) == np.shape(meant)
                assert np.array_equal(found, meant)


@pytest.mark.parametrize("name", [*ARGUMENTS, "cumsum", "argmax", "any", "flatten", "ravel"])
def test_methods_that_people_use_have_a_cure(name):
    assert cure(in_equations, f"x.{name}({ARGUMENTS.get(name, [''])[0]})")


def test_an_argument_that_a_function_does_not_have_is_named():
    with pytest.raises(MalformedBody, match=r"numpy\.clip\(a, a_min=None, a_max=None\).*keyword argument 'max'"):
        in_equations("x.clip(max=1)")


@pytest.mark.parametrize(("text", "meant"), [("[p for p in {}]", X), ("[2 * p - 1 for p in {}]", 2 * X - 1)])
def test_lists_of_elements_are_arrays(tmp_path, text, meant):
    assert np.array_equal(in_equations(cure(in_equations, text.format("x"))), meant)
    assert np.array_equal(in_port(tmp_path, cure(in_port, tmp_path, text.format("run.path"))), meant)


@pytest.mark.parametrize("text", ["[p + run.v for p in run.path]", "[0 for p in run.path]", "[p for p in run.path if p]"])
def test_lists_that_no_array_is_have_no_code(tmp_path, text):
    assert cure(in_port, tmp_path, text) == "functions of whole arrays, such as numpy.sum(x * y)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max({})", "numpy.max(x), or numpy.maximum(a, b), which goes element by element"),
        ("min({}, 0)", "numpy.min(x), or numpy.minimum(a, b), which goes element by element"),
        ("round({}, 1)", "numpy.round(x, digits)"),
        ("int({})", "numpy.trunc(x)"),
        ("float({})", "x"),
        ("mean({})", "numpy.mean(run.path)"),
        ("{}.T", "numpy.transpose(run.path)"),
        ("max(0, 1) + abs({}) + mean(run.v)", "numpy.mean(run.v)"),
    ],
)
def test_functions_of_python_in_ports_lead_to_those_of_numpy(tmp_path, text, said):
    with pytest.raises(LoopError) as caught:
        in_port(tmp_path, text.format("run.path"))
    assert str(caught.value).endswith(f"write {said}")
    assert "expression" not in str(caught.value) or f"'{text.format('run.path')}'" in str(caught.value)


def test_results_stay_readable_in_models_that_are_trusted(tmp_path):
    with mdf_loop.options(trusted=True):
        assert in_port(tmp_path, "run.path.sum()") == X.sum()


OF_CALLS = {
    "float": "float(x[0])",
    "bool": "bool(x[0])",
    "complex": "np.real(complex(x[0]))",
    "max": "max(x[0], x[1])",
    "min": "min(x[0], x[1])",
    "sum": "sum(x)",
    "any": "any(x)",
    "all": "all(x)",
    "sorted": "sorted(x)",
    "len": "len(x)",
    "math.pow": "math.pow(x[0], 2)",
    "math.fabs": "math.fabs(x[1])",
    "math.isclose": "math.isclose(x[0], 0.5)",
    "np.logaddexp.reduce": "np.logaddexp.reduce(x)",
    "np.add.accumulate": "np.add.accumulate(x)",
    "np.add.outer": "np.add.outer(x, x)[1]",
    "np.subtract.outer": "np.subtract.outer(x, x)[1]",
    "np.multiply.outer": "np.multiply.outer(x, x)[1]",
    "np.searchsorted": "np.searchsorted(np.sort(x), x[1])",
    "np.isin": "np.isin(x[0], [0.5, 3.0])",
    "max of one": "max(x)",
    "min of one": "min(x)",
}
"""By row of the table: a call for which its message has code."""

IN_WORDS = {"int", "np.select", "np.einsum", "np.fill_diagonal", "list", "tuple", "np.float64", "norm.pdf", "norm.cdf"}
"""Rows that name several ways, a part of them, or what other tests run."""


def test_each_row_with_code_is_run():
    with_code = {name for name, said in (CALLS | OF_ONE).items() if re.search(r"(^|: )write (?!a number)", said)}
    assert with_code - IN_WORDS <= OF_CALLS.keys()


def function_of(tmp_path, text, name):
    """A body in a file, which messages read."""
    path = tmp_path / f"{name}.py"
    path.write_text(f"def f(i, go, x):\n    return go, 0 * x + ({text})\n")
    scope = {"np": np, "math": math}
    exec(compile(path.read_text(), path, "exec"), scope)
    return mdf_loop.body(scope["f"])


@pytest.mark.parametrize("name", OF_CALLS)
def test_calls_in_functions_lead_to_code_that_gives_the_same(tmp_path, name):
    text, x = OF_CALLS[name], X[0]
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, x, body=function_of(tmp_path, text, "mistaken"))
    said = re.search(r"write (.*?)(, where .*|, with .*)?$", str(caught.value))[1]
    call = re.search(r"[\w.]+\(", text)
    whole = text[: call.start()] + f"({said})" + text[_end_of_call(text, call.end()) :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = mdf_loop.loop(1, True, x, body=function_of(tmp_path, whole, "cured"))
    assert np.allclose(found, 0 * x + eval(text, {"np": np, "math": math, "x": x}))


def _end_of_call(text, begin):
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[begin], 0)
        begin += 1
    return begin


@pytest.mark.parametrize(
    ("start", "line"),
    [
        ("np.empty(3)", "y[:] = x"),
        ("np.zeros(3)", "y[1:] = x[1:]"),
        ("np.zeros(3)", "y[-1] = x[0]"),
        ("np.ones(3)", "y[0] += x[1]"),
        ("np.zeros((2, 3))", "y[:, 0] = x[:, 1]"),
        ("np.zeros(3)", "y[np.array([0, 2])] = x[1]"),
        ("np.zeros(3)", "y[i % 3] = 1"),
        ("np.zeros((2, 3))", "y[1, i + 1] += 2"),
        ("np.zeros(3)", "y[i:i + 1] = 1"),
    ],
)
def test_elements_of_an_array_that_was_made_are_set(tmp_path, start, line):
    def ran(*lines):
        path = tmp_path / f"of_{len(lines)}.py"
        path.write_text("\n    ".join(["def f(i, go, x):", f"y = {start}", *lines, "return go, x + y"]))
        scope = {"np": np}
        exec(compile(path.read_text(), path, "exec"), scope)
        return scope["f"]

    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, X[0], body=mdf_loop.body(ran(line)))
    before, after = re.search(r"make y a value of the loop before: (.*); (.*) works then$", str(caught.value)).groups()
    assert after == line
    x = X if "(2, 3)" in start else X[0]
    found = mdf_loop.loop(1, True, x, body=mdf_loop.body(ran(before, after)))
    assert np.array_equal(found, ran(line)(0, True, x)[1])


@pytest.mark.parametrize(("numbers", "count"), [("len(x)", "np.shape(x)[0]"), ("1, len(x)", "np.shape(x)[0] - 1")])
def test_a_range_over_the_length_of_a_value_is_a_loop_of_that_length(tmp_path, numbers, count):
    with pytest.raises(LoopError) as caught:
        mdf_loop.loop(1, True, X[0], body=function_of(tmp_path, f"np.sum([x[k] for k in range({numbers})])", "ranges"))
    assert f"mdf_loop.loop({count}, True, x, body=...)" in str(caught.value)

    @mdf_loop.body
    def outer(i, go, x):
        return go, mdf_loop.loop(eval(count), True, x, body=lambda k, g, y: (g, y + k))

    assert np.array_equal(mdf_loop.loop(1, True, X[0], body=outer), X[0] + sum(range(eval(count, {"np": np, "x": X[0]}))))


@pytest.mark.parametrize(
    ("text", "cure", "written", "meant"),
    [
        ("where(-s[i], 1, 0)", "write 1 * x for x", "where(-(1 * s[i]), 1, 0)", 1),
        ("s[i] - s[i]", "write 1 * x for x", "1 * s[i] - 1 * s[i]", 0),
        ("heaviside(x[0, 1])", "the value at 0 comes second: heaviside(x, 0.5)", "heaviside(x[0, 1], 0.5)", 0),
        ("(1 - v)/2 : 1", "write it without the unit; metadata has that", "(1 - v)/2", 0.5),
        ("(1 - v)/2 : volt (constant)", "write it without the unit; metadata has that", "(1 - v)/2", 0.5),
    ],
)
def test_small_mistakes_have_cures_that_run(text, cure, written, meant):
    def run(text):
        return mdf_loop.loop(1, True, v=0.0, x=X, s=np.array([True]), body=f"v: v + 0 * s[0] * sum(x)\ncollect y: {text}")[1][0]

    with pytest.raises(LoopError, match=re.escape(cure)):
        run(text)
    assert run(written) == meant


def test_a_sparse_matrix_is_made_an_array():
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(X)
    with pytest.raises(LoopError, match=r"got csr_matrix; write \.toarray\(\) behind a sparse matrix"):
        mdf_loop.loop(1, True, v=0.0, w=sparse, body="v: v + sum(w)")
    assert mdf_loop.loop(1, True, v=0.0, w=sparse.toarray(), body="v: v + sum(w)") == X.sum()


@pytest.mark.parametrize("more", ["", "\n                  k: k + 1"])
def test_an_assignment_in_yaml_is_named_with_its_line(tmp_path, more):
    lines = ["m:", "  graphs:", "    g:", "      nodes:", "        n:", "          parameters:", "            x: {value: 1}"]
    lines += ["            run:", "              function: onnx::Loop", "              args: {M: 2, v: 0, k: 0, body: body}"]
    lines += ["            body:", "              value:", "                carried:", "                  v = v + x"]
    path = tmp_path / "m.yaml"
    path.write_text("\n".join(lines) + more)
    with pytest.raises(LoopError) as caught:
        mdf_loop.run(path)
    assert str(caught.value).endswith(f"{'in line 14, ' if more else ''}an equation has a colon: v: v + x")
    path.write_text(path.read_text().replace("v = v + x", "v: v + x").removesuffix(more) + "\n                  k: k + 1")
    assert not [found for found in check(path) if found.kind == "error"]


def test_an_index_of_a_function_becomes_whole():
    rows = np.array([1.0, 2.0, 4.0])

    @mdf_loop.body
    def halves(i, go, x, *, rows):
        return True, x + rows[i / 2]

    @mdf_loop.body
    def whole(i, go, x, *, rows):
        return True, x + rows[(i / 2).astype(int)]

    with pytest.raises(LoopError, match=r"for k write int\(k\) in equations and k\.astype\(int\) in a function"):
        mdf_loop.loop(4, True, 0.0, body=halves, rows=rows)
    assert mdf_loop.loop(4, True, 0.0, body=whole, rows=rows) == 6.0


def test_a_table_of_pandas_is_given_column_by_column():
    table = pytest.importorskip("pandas").DataFrame({"r": [1.0, 2.0], "c": [0, 1]})

    @mdf_loop.body
    def of_table(i, go, x, *, df):
        return True, x + df["r"][i]

    @mdf_loop.body
    def of_column(i, go, x, *, r):
        return True, x + r[i]

    with pytest.raises(LoopError, match=r"'df' is an array here, without columns: give r=df\['r'\]\.to_numpy\(\) in its place"):
        mdf_loop.loop(2, True, 0.0, body=of_table, df=table)
    assert mdf_loop.loop(2, True, 0.0, body=of_column, r=table["r"].to_numpy()) == 3.0


def test_an_engine_that_does_not_exist_leads_to_those_that_do():
    with pytest.raises(LoopError, match="engine must be one of auto, interpret"):
        mdf_loop.run("examples/newton.yaml", engine="numba")
    with pytest.raises(LoopError, match="is an option, and the model has no input"):
        mdf_loop.run("examples/newton.yaml", engine="numpy")
