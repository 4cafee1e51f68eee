"""Drawings show what bounds a loop: its trip count, where it has one, and the condition under which it begins."""

from pathlib import Path

import onnx.parser
import pytest

import mdf_loop
from mdf_loop.pictures.boxes import CONDITION

EXPORTED = sorted((Path(__file__).parents[1] / "models").glob("*.onnx"))
COUNTED = """<ir_version: 8, opset_import: ["": 18]>
    g (float x, int64 n, float limit) => (float y) <int64 max = {COUNT}> {
        go = Less (x, limit)
        y = Loop <body = b (int64 i, bool c, float a) => (bool d, float b) { b = Add (a, a) d = Less (b, limit) }> (GIVEN, go, x)
    }"""
EQUATIONS = """m:
  graphs:
    m:
      nodes:
        n:
          input_ports: {go: {default_value: 1.0}}
          parameters:
            most: {value: COUNT}
            body: {value: {carried: {x: x + 1}, while: x < 3}}
            run: {function: onnx::Loop, args: {M: GIVEN, cond: go > 0, x: 0.0, body: body}}
          output_ports: {o: {value: run.x}}
"""


def conditions(drawing):
    """The texts of conditions, each with the texts of the boxes that lead to it."""
    boxes = {box.key: box for box in drawing.picture.top.all_boxes()}
    leading = {key: {boxes[a.tail].lines[0] for a in drawing.picture.arrows if a.head == key} for key in boxes}
    return {" ".join(box.lines): leading[key] for key, box in boxes.items() if box.kind == CONDITION}


@pytest.mark.parametrize(
    ("given", "count", "said", "leading"),
    [
        ("max", "9223372036854775807", "no bound: M is 9223372036854775807", set()),
        ("max", "2147483647", "no bound: M is 2147483647", set()),
        ("max", "2147483646", "at most 2147483646 times", set()),
        ("n", "1", "at most n times", {"n"}),
    ],
)
@pytest.mark.parametrize("body", [None, "mdf", "onnx"])
def test_trip_counts_and_first_conditions_of_operators(given, count, said, leading, body):
    model = onnx.parser.parse_model(COUNTED.replace("GIVEN", given).replace("COUNT", count))
    found = conditions(mdf_loop.draw(model if body is None else mdf_loop.convert(model, body=body)))
    assert found.pop(said) == leading
    begins = next(text for text in found if text.startswith("begins if"))
    assert (begins, found[begins]) == ("begins if go", {"Less"})


def test_a_name_inside_of_a_loop_is_not_the_constant_outside():
    text = """<ir_version: 8, opset_import: ["": 18]>
    g (float x) => (float y) <int64 max = {9223372036854775807}, int64 n = {4}> {
        y = Loop <body = b (int64 i, bool c, float a) => (bool c, float b) {
            b = Loop <body = d (int64 max, bool p, float q) => (bool p, float r) {
                r = Loop <body = e (int64 k, bool l, float s) => (bool l, float t) { t = Add (s, s) }> (max, , q)
            }> (n, , a)
        }> (max, , x) }"""
    found = conditions(mdf_loop.draw(onnx.parser.parse_model(text)))
    assert [*found] == ["no bound: M is 9223372036854775807", "4 times", "max times"]


@pytest.mark.parametrize("level", ["equations", "operators"])
@pytest.mark.parametrize(
    ("given", "count", "said"),
    [
        ("most", "20", "at most most times"),
        ("most", "2147483648", "no bound: M is 2147483648"),
        ("9223372036854775807", "20", "no bound: M is 9223372036854775807"),
        ("5", "20", "at most 5 times"),
    ],
)
def test_those_of_equations(level, given, count, said, tmp_path):
    path = tmp_path / "m.yaml"
    path.write_text(EQUATIONS.replace("GIVEN", given).replace("COUNT", count))
    found = conditions(mdf_loop.draw(path, level=level))
    assert len(found[said]) == (given == "most")
    if level == "equations":
        assert found["begins if go > 0"] == {"go"}


@pytest.mark.parametrize("path", EXPORTED, ids=lambda path: path.stem)
def test_all_that_a_loop_reads_leads_into_it(path, monkeypatch):
    """The values that a Loop, Scan or If reads, and that are no constants, are joined with a box inside of it."""
    from mdf_loop.pictures.of_bodies import BodyDrawer

    drawn, control = [], BodyDrawer.control

    def noted(self, node, cluster, scope):
        before, place = dict(scope), len(cluster.clusters)
        result = control(self, node, cluster, scope)
        drawn.append((node, before, cluster.clusters[place], self.picture.arrows))
        return result

    monkeypatch.setattr(BodyDrawer, "control", noted)
    for model in (path, mdf_loop.convert(path)):
        mdf_loop.draw(model)
    assert drawn
    for node, scope, cluster, arrows in drawn:
        inside = {box.key for box in cluster.all_boxes()}
        joined = {arrow.tail for arrow in arrows if arrow.head in inside}
        assert [name for name in node.reads if scope.get(name) and scope[name] not in joined] == []
