"""An equation that sets one element of an array is refused, and what the message has in its place gives the right numbers."""

import re

import numpy as np
import pytest
from engines import ENGINES

import mdf_loop
from mdf_loop.checks.model_file import check
from mdf_loop.errors import MalformedBody


def cure(body, *args, **given):
    with pytest.raises(MalformedBody) as raised:
        mdf_loop.loop(*args, body=body, **given)
    return str(raised.value)


LINES = {
    "q[c]: q[c] + rate * (r - q[c])": "q[c] += rate * (r - q[c])",
    "q[c] = q[c] + rate * (r - q[c])": "q[c] += rate * (r - q[c])",
    "q(c) = q(c) + rate * r": "q[c] += rate * r",
    "q[c] += rate * r - c": "q[c] += rate * r - c",
    "q[c] -= rate - r": "q[c] -= rate - r",
    "q[c] *= rate + r": "q[c] *= rate + r",
    "q[c]: r": "q[c] = r",
    "q[0]: q[0] + r": "q[0] += r",
    "q[-1]: q[-1] + sum(q) * c": "q[-1] += sum(q) * c",
    "q[c - 2] += sum(q)": "q[c - 2] += sum(q)",
    "q[all_c[0]] += rate": "q[all_c[0]] += rate",
    "q[q > 0.25]: q[q > 0.25] * rate": "q[q > 0.25] *= rate",
    "q[q > 0.25] -= rate + r": "q[q > 0.25] -= rate + r",
}
GIVEN = {"rate": 0.1, "r": 1.0, "c": 2, "all_c": [1]}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("line", LINES)
def test_the_cure_gives_what_python_gives(line, engine):
    start = np.array([0.1, 0.2, 0.3])
    said = cure(line, 1, True, q=start)
    equation = re.search("the whole of q: (q: .*); in an @mdf_loop.body write q", said)[1]
    expected = {"q": start.copy(), "sum": np.sum, **GIVEN, "all_c": np.array([1])}
    exec(LINES[line], expected)
    given = {name: value for name, value in GIVEN.items() if re.search(rf"\b{name}\b", equation)}
    with mdf_loop.options(engine=engine):
        np.testing.assert_allclose(mdf_loop.loop(1, True, q=start, body=equation, **given), expected["q"], rtol=1e-15)


@pytest.mark.parametrize("line", ["q[s, a]: q[s, a] + rate * (r - q[s, a])", "q[s][a] += rate * (r - q[s, a])"])
def test_an_element_of_a_table_is_set(line):
    table = np.arange(6.0).reshape(2, 3)
    equation = re.search("the whole of q: (q: .*); in an @mdf_loop.body write q", cure(line, 1, True, q=table))[1]
    after = mdf_loop.loop(1, True, q=table, body=equation, rate=0.5, r=1.0, s=1, a=2)
    np.testing.assert_array_equal(after, [[0, 1, 2], [3, 4, 3]])


def test_a_second_line_and_a_slice_have_a_cure_too():
    said = cure("p: p + q[0]\nq[c]: q[c] + 1", 1, True, p=0.0, q=np.zeros(2))
    assert "line 2: " in said
    assert "q: where(arange(len(q)) == c, q[c] + 1, q)" in said
    said = cure("q[1:3]: 0", 1, True, q=np.zeros(4))
    assert "; an equation gives the whole of q; in an @mdf_loop.body write q[1:3] = ..." in said


@pytest.mark.parametrize("line", ["x[i]: x[i-1] + a", "x[t+1] = x[t] + a", "x(k+1) = x(k) + a", "x(t+dt) = x(t) + a"])
def test_values_of_iterations_are_collected(line):
    said = cure(line, 2, True, x=0.0)
    equation, kept = re.search("a colon: (x: .*), and (collect .*) keeps", said).groups()
    assert mdf_loop.loop(2, True, x=0.0, a=2.0, body=f"{equation}\n{kept}")[1].tolist() == [2, 4]


MODEL = """
m: {graphs: {g: {nodes: {a: {parameters: {run: {function: "onnx::Loop", args: {M: 3, q: [0.0, 0.0], body: b}},
  b: {value: {carried: {"%s": "%s"}}}}, output_ports: {o: {value: run.q}}}}}}}
"""


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("q[c]", "q[c] + 1", "q: where(arange(len(q)) == c, q[c] + 1, q)"),
        ("q[i]", "q[i-1] + 1", "q: q + 1, and collect all_q: q keeps those of all iterations"),
    ],
)
def test_a_node_has_the_same_cure(tmp_path, name, value, meant):
    (tmp_path / "m.yaml").write_text(MODEL % (name, value))
    assert any(meant in found.message for found in check(tmp_path / "m.yaml"))


def test_a_let_is_no_result_until_it_is_collected(tmp_path):
    path, text = tmp_path / "m.yaml", MODEL % ("q", "q + d")
    path.write_text(text.replace("{carried", "{let: {d: 1 + i}, carried").replace("run.q", "run.d"))
    with pytest.raises(MalformedBody, match=re.escape("it is of let, which is computed and not kept: write collected: {d: d}")):
        mdf_loop.run(path)
    path.write_text(path.read_text().replace("{let", "{collected: {d: d}, let"))
    assert mdf_loop.run(path)["o"].tolist() == [1, 2, 3]


def test_an_operator_takes_its_value_as_a_whole():
    assert cure("x *= a + b", 1, True, x=1.0).endswith("x: x * (a + b)")
    assert cure("x -= a - b", 1, True, x=1.0).endswith("x: x - (a - b)")
