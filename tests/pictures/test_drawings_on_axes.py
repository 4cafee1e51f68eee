"""Pictures on axes of matplotlib, without Graphviz: arrows pass boxes, and texts fit."""

import numpy as np
import pytest
from modeci_mdf import mdf

import mdf_loop
from mdf_loop.pictures import routes
from mdf_loop.pictures.boxes import VALUES, Box, Cluster, Picture
from mdf_loop.pictures.layout import MARGIN, WIDEST, Spot, laid_out
from mdf_loop.pictures.of_equations import broken
from tests.pictures.test_draw import MODELS, ROOT


def on_the_way(ax, drawing):
    """Boxes and headings that a line of a picture on axes passes through, though it leads elsewhere."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    places = laid_out(drawing.picture)
    keys = [box.key for box in drawing.picture.top.all_boxes()]
    headings = [text.get_window_extent().transformed(ax.transData.inverted()) for text in ax.texts if text.get_weight() == "bold"]
    patches = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    for arrow, patch in zip(drawing.picture.arrows, patches, strict=True):
        lines = patch.get_transform().transform_path(patch.get_path()).to_polygons(closed_only=False)
        found = np.concatenate([Path(line).interpolated(20).vertices for line in lines])  # curves as straight pieces
        points = ax.transData.inverted().transform(found)
        for key in set(keys) - {arrow.tail, arrow.head}:
            left, top, right, bottom = places[key].corners
            if any(left < x < right and top < y < bottom for x, y in points):
                yield arrow, key
        yield from ((arrow, box) for box in headings if any(map(box.contains, *points.T)))


def node_of(values, args, outputs, **body):
    """A node with a loop over equations."""
    parameters = [mdf.Parameter(id=name, value=value) for name, value in {**values, "body": body}.items()]
    parameters.append(mdf.Parameter(id="run", function="onnx::Loop", args={"M": 500, **args, "body": "body"}))
    ports = [mdf.OutputPort(id=name, value=text) for name, text in outputs.items()]
    return mdf.Graph(id="g", nodes=[mdf.Node(id="n", parameters=parameters, output_ports=ports)])


def race():
    carried = {name: f"max({name} + drift_{name} * dt + sigma * sqrt(dt) * noise(), 0)" for name in "ab"} | {"t": "t + dt"}
    values = {"drift_a": 1.2, "drift_b": 0.7, "bound": 1.0, "t0": 0.2, "dt": 0.001, "sigma": 1.0}
    outputs = {"rt": "run.t", "choice": "run.a"}
    return node_of(values, {"a": 0.0, "b": 0.0, "t": "t0"}, outputs, carried=carried, **{"while": "(a < bound) & (b < bound)"})


def leaky_neuron():
    let = {"w": "v + dt * ((rest - v) + R * current) / tau", "fired": "w > thr"}
    carried = {"v": "where(fired, rest, w)", "n": "n + fired"}
    values = {"current": 2.3, "tau": 15.0, "dt": 0.1, "rest": -65.5, "thr": -50.0, "R": 10.0}
    outputs = {"volt": "run.volt", "count": "run.n"}
    return node_of(values, {"v": "rest", "n": 0}, outputs, let=let, carried=carried, collected={"volt": "v"})


def fan():
    """A node that leads to 14 others."""
    ports = [mdf.InputPort(id="x")], [mdf.OutputPort(id="out", value="x")]
    nodes = [mdf.Node(id=f"stage_{k}", input_ports=ports[0], output_ports=ports[1]) for k in range(15)]
    ends = {"sender": "stage_0", "sender_port": "out", "receiver_port": "x"}
    edges = [mdf.Edge(id=f"e{k}", receiver=f"stage_{k}", **ends) for k in range(1, 15)]
    return mdf.Graph(id="g", nodes=nodes, edges=edges)


def rates():
    """A neuron with the equations of Hodgkin and Huxley's gates."""
    gates = "mhn"
    let = {f"{kind}_{x}": f"0.1 * (v + 40) / (1 - exp(-(v + 40) / {k}))" for k, x in enumerate(gates, 4) for kind in ("a", "b")}
    derivatives = {"v": "m * h * n - v", **{x: f"a_{x} * (1 - {x}) - b_{x} * {x}" for x in gates}}
    return node_of({}, dict.fromkeys("vmhn", 0.5), {"v": "run.v"}, let=let, derivatives=derivatives, dt=0.01)


@pytest.mark.parametrize(("source", "rows"), [(fan, 3), (rates, 7)])
def test_a_wide_row_is_several_rows(source, rows):
    drawing = mdf_loop.draw(source())
    places, depth = laid_out(drawing.picture), 4
    assert places[drawing.picture.top.key].width <= 1.2 * WIDEST + 2 * depth * MARGIN
    boxes = [places[box.key] for box in drawing.picture.top.all_boxes()]
    assert len({box.y for box in boxes}) >= rows
    for k, one in enumerate(boxes):
        for other in boxes[:k]:
            is_beside = one.x + one.width <= other.x or other.x + other.width <= one.x
            assert is_beside or one.y + one.height <= other.y or other.y + other.height <= one.y


def test_a_row_that_fits_stays_one():
    row = [Box(name, ("x" * k,), VALUES) for k, name in enumerate("abc", 1)]
    places = laid_out(Picture(Cluster("top", "", row, []), []))
    assert len({places[name].y for name in "abc"}) == 1


@pytest.mark.parametrize("source", [*MODELS, race, leaky_neuron, fan, rates], ids=lambda source: getattr(source, "name", None))
def test_arrows_on_axes_pass_the_boxes_between_their_ends_and_all_of_it_fits(source):
    plt = pytest.importorskip("matplotlib.pyplot")
    drawing = mdf_loop.draw(source() if callable(source) else source)
    ax = drawing.plot()
    whole = laid_out(drawing.picture)[drawing.picture.top.key]
    assert not list(on_the_way(ax, drawing))
    for patch in ax.patches[-len(drawing.picture.arrows) :]:
        _, ends = ax.transData.inverted().transform(patch.get_window_extent().get_points())
        assert ends[0] <= whole.width
    assert_fits(ax)
    plt.close(ax.figure)


def assert_fits(ax):
    """A figure is as large as its picture and its legend."""
    ax.figure.canvas.draw()
    assert ax.get_position().bounds == pytest.approx((0, 0, 1, 1))
    assert tuple(ax.figure.get_size_inches()) == pytest.approx((ax.get_xlim()[1], ax.get_ylim()[0]))
    for text in ax.texts:
        box = text.get_window_extent().transformed(ax.transAxes.inverted())
        assert min(box.x0, box.y0) >= 0, text
        assert max(box.x1, box.y1) <= 1, text


def test_parameters_that_different_equations_read_have_boxes_of_their_own():
    boxes = [box.lines for box in mdf_loop.draw(leaky_neuron()).picture.top.all_boxes() if box.kind == VALUES]
    assert boxes == [("current = 2.3", "tau = 15.0", "dt = 0.1", "R = 10.0"), ("rest = -65.5",), ("thr = -50.0",)]


def test_long_equations_are_broken_where_few_brackets_are_open():
    assert broken("w = v + dt * ((rest - v) + R * current) / tau") == ["w = v + dt * ((rest - v) + R * current)", "    / tau"]
    assert broken("x" * 100) == ["x" * 44, "    " + "x" * 40, "    " + "x" * 16]


def test_a_long_list_in_a_box_begins_at_the_left():
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = mdf_loop.draw(ROOT / "examples" / "gallery" / "hodgkin_huxley.yaml").plot()
    assert [text.get_ha() for text in ax.texts if text.get_text().startswith("pop0")] == ["left"]
    plt.close(ax.figure)


def test_arrows_that_go_around_the_same_box_stay_apart():
    tails, heads = [Spot(x, 0.2, 0.4, 0.3) for x in (1.5, 2.5)], [Spot(x, 2.5, 0.4, 0.3) for x in (1.5, 2.5)]
    wall, whole = Spot(0.8, 1.0, 2.8, 1.0), Spot(0, 0, 6, 4)
    first = routes.around(tails[0], heads[0], [wall], whole)
    alone, second = (routes.around(tails[1], heads[0], [wall], whole, earlier=each) for each in ((), [first]))
    assert routes._together(alone, [first]) > 2 * routes.SHORT
    assert routes._together(second, [first]) <= routes.SHORT


def test_a_way_with_a_corner_on_the_edge_of_its_end_has_a_direction_for_the_head():
    way = routes._to_edge([np.array(point) for point in ([0.0, 3.0], [1.5, 1.0], [1.5, 0.8])], Spot(1.0, 0.6, 1.0, 0.4))
    assert np.hypot(*(way[-1] - way[-2])) > routes.CELL
