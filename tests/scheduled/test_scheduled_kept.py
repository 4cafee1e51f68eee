"""Scheduled models that are called again: their loop is made once for what it depends on, and gives what a new one gives."""

import pickle
import warnings

import numpy as np
import pytest
from engines import ENGINES, SETTLED
from modeci_mdf.mdf import Condition, ConditionSet, Graph, InputPort, Node, OutputPort, Parameter
from scheduled_generated import generated_graph
from scheduled_models import PUBLISHED, assert_same

import mdf_loop
from mdf_loop.convert.scheduled import loops as scheduled
from mdf_loop.convert.scheduled.lowered_runs import execute
from mdf_loop.errors import LoopError, LoopWarning
from mdf_loop.integrations.input_places import with_inputs
from mdf_loop.models.mdf import MdfModel
from mdf_loop.ops.registry import KERNELS, register
from mdf_loop.options import part_of, random_stream, start_run

pytestmark = pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")  # generated graphs grow, and lack inputs

NUMBER = ["numpy.random.normal(0, 1)", "(1 if numpy.random.rand() > 0.5 else 0.5)", "numpy.random.normal(0, 1, 2)"]


def new(graph):
    """A model that nothing is known of yet."""
    return MdfModel(pickle.loads(pickle.dumps(graph)))


def noisy(number, limit=0.5):
    """A walk by random steps, which may be whole numbers or not, and a node that waits for it to be large."""
    step = Parameter(id="x", value=f"x + {number}", default_initial_value=0)
    whole = Parameter(id="mean", value="mean * 0 + numpy.sum(x)", default_initial_value=0)
    walking = Node(id="walk", parameters=[step, whole], output_ports=[OutputPort(id="o", value="x")])
    count = Node(id="n", parameters=[Parameter(id="k", value="k + 1")], output_ports=[OutputPort(id="count", value="k")])
    large = Condition("Threshold", dependency="walk", parameter="mean", threshold=limit, comparator=">")
    return Graph(id="g", nodes=[walking, count], conditions=ConditionSet(node_specific={"n": large}, termination={}))


def made(monkeypatch):
    """How often a body was read, as it is counted from now on."""
    found, original = [], scheduled.loop_behind
    monkeypatch.setattr(scheduled, "loop_behind", lambda *args: found.append(args) or original(*args))
    return found


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_loop_that_is_kept_gives_the_same_each_time(name, engine):
    make, increment = PUBLISHED[name]
    model = new(make())
    with mdf_loop.options(engine=engine):
        for steps in (40, 3, 40, 40, 3):
            assert_same(model(steps=steps, time_increment=increment), new(make())(steps=steps, time_increment=increment))


def test_generated_graphs_give_the_same_when_they_are_called_again():
    compared = 0
    for seed in range(30):
        graph, how = generated_graph(seed), {"steps": (2, 5, 9)[seed % 3], "time_increment": (None, 0.5)[seed % 2]}
        try:
            scheduled.lower(graph, **how)
        except LoopError:
            continue
        model, node = new(graph), graph.nodes[0].id
        for more in ({}, {f"{node}.c": 4.5}, {"collect": True}, {}, {f"{node}.c": 4}, {f"{node}.c": 4.5}):
            try:
                expected = new(graph)(**how, **more)
            except LoopError as error:
                with pytest.raises(type(error)):
                    model(**how, **more)
                continue
            assert_same(model(**how, **more), expected)
            compared += 1
    assert compared >= 30


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("number", NUMBER)
def test_noise_is_drawn_again_in_each_run_and_the_loop_begins_with_it(number, engine):
    model = new(noisy(number))
    with mdf_loop.options(engine=engine):
        for seed in (1, 2, 3, 1, 4):
            how = {"steps": 30, "seed": seed, "record": "walk.x"}
            found, expected = model(**how), new(noisy(number))(**how)
            assert_same(found, expected)
            assert_same(found.recorded, expected.recorded)


def test_the_body_is_read_once_for_what_it_depends_on(monkeypatch):
    bodies, model = made(monkeypatch), mdf_loop.prepare("examples/oscillator.yaml")
    model = new(model.graph)
    for _ in range(3):
        model(steps=20, time_increment=0.01)
    assert len(bodies) == 1
    model(steps=20, time_increment=0.01, record="spring.position")
    model(steps=20, time_increment=0.01, record=["spring.position"], every=2)
    assert len(bodies) == 2
    model(steps=21, time_increment=0.01)
    model(steps=20, time_increment=0.01, damping=0.25)
    model(steps=20, time_increment=0.01, damping=0.25)
    assert len(bodies) == 4


def test_the_body_of_a_noisy_model_is_read_once_for_all_seeds(monkeypatch):
    bodies, model = made(monkeypatch), new(noisy(NUMBER[0], limit=-1e9))
    with mdf_loop.options(engine="numpy"):
        found = [model(steps=20, seed=seed)["o"] for seed in range(5)]
        assert len(bodies) == 1
        assert len(set(found)) == 5
        model(steps=20, trials=6)
    assert len(bodies) == 1


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_what_a_user_writes_into_results_is_not_kept(steps):
    values = Parameter(id="x", value="x * 2", default_initial_value=[1.0, 2.0])
    model = new(Graph(id="g", nodes=[Node(id="n", parameters=[values], output_ports=[OutputPort(id="o", value="x")])]))
    expected = model(steps=steps)["o"].copy()
    for more in ({}, {"record": "n.x"}):
        for _ in range(2):
            r = model(steps=steps, **more)
            np.testing.assert_array_equal(r["o"], expected)
            r["o"][:] = -1
            for row in r.recorded.values():
                row[:] = -1


def test_a_kernel_that_is_replaced_is_used():
    node = Node(
        id="n",
        input_ports=[InputPort(id="i", default_value=[4.0])],
        parameters=[Parameter(id="y", function="onnx::Sqrt", args={"X": "i"}), Parameter(id="z", value="z + y")],
        output_ports=[OutputPort(id="o", value="z")],
    )
    model = new(Graph(id="g", nodes=[node]))
    assert model(steps=4)["o"] == 8
    kernels = list(KERNELS["", "Sqrt"])
    try:
        mdf_loop.kernel("Sqrt", since=13)(lambda x: x * 0 + 10)
        assert model(steps=4)["o"] == 40
    finally:
        KERNELS["", "Sqrt"][:] = kernels
        register(kernels[0])
    assert model(steps=4)["o"] == 8


def test_what_runs_in_mdfs_engine_says_so_each_time_and_obeys_the_seed():
    graph = noisy(NUMBER[0])
    graph.conditions.node_specific["n"] = Condition("TimeInterval", repeat=1, unit="ms")
    model, found = new(graph), []
    for seed in (1, 2, 1, 2):
        with pytest.warns(LoopWarning, match="MDF's engine.*TimeInterval"):
            found.append(model(steps=4, seed=seed)["o"])
    assert found[0] == found[2] != found[1] == found[3]


def test_a_pickle_of_a_model_that_ran_runs():
    model = new(mdf_loop.load("examples/oscillator.yaml").graphs[0])
    how = {"steps": 30, "time_increment": 0.01, "record": "spring.position"}
    before = model(**how)
    after = pickle.loads(pickle.dumps(model))(**how)
    assert_same(after, before)
    np.testing.assert_array_equal(after.recorded["spring.position"], before.recorded["spring.position"])


def free_numbers(graph):
    """Inputs by full name, with the numbers and arrays that they are."""
    model = new(graph)
    found = {}
    for name, each in model.inputs.items():
        value = each.default
        if isinstance(value, int | float | list | np.ndarray) and np.asarray(value).dtype.kind in "if":
            found[each.name if "." in name else f"{each.place.split()[1].rstrip(',')}.{each.place.split()[-1]}"] = value
    return found


def other(value, k):
    """Another number or array of the same kind."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value + k
    found = np.asarray(value) * (1 + 0.125 * k) + 0.0625 * k
    return float(found) if isinstance(value, float) else found.astype(np.asarray(value).dtype)


def assert_as_lowered_anew(graph, given, how, seed=1):
    """A model called with values that differ each time gives what a loop gives that is made for them alone."""
    model, compared = new(graph), 0
    for k in range(3):
        inputs = {name: other(value, k) for name, value in given.items()}
        try:
            with mdf_loop.options(seed=seed):
                run = start_run()
                with part_of(run), random_stream(run.stream):
                    expected = execute(scheduled.lower(with_inputs(graph, inputs), **how), run)
        except LoopError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error", LoopWarning)
            warnings.filterwarnings("ignore", "nothing reads time_increment")
            warnings.filterwarnings("ignore", ".* it did not run in the|.* ran no pass|.* no pass ran", LoopWarning)
            warnings.filterwarnings("ignore", "input .* has no value|.* became infinite|.*steps have no length", LoopWarning)
            warnings.filterwarnings("ignore", ".* in no particular order", LoopWarning)
            found = model(**how, **inputs, seed=seed)
        assert_same(found, expected)
        compared += 1
    return compared


@pytest.mark.parametrize("engine", ["interpret", *SETTLED])
def test_other_values_of_the_same_kind_give_what_a_loop_made_for_them_gives(engine):
    compared = 0
    with mdf_loop.options(engine=engine):
        for seed in range(8):
            graph, how = generated_graph(seed), {"steps": (2, 5, 9)[seed % 3], "time_increment": (None, 0.5)[seed % 2]}
            for given in ({name: value} for name, value in free_numbers(graph).items()):
                compared += assert_as_lowered_anew(graph, given, how)
            compared += assert_as_lowered_anew(graph, free_numbers(graph), how)
    assert compared >= 40


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_with_other_values(name, engine):
    make, increment = PUBLISHED[name]
    graph = new(make()).graph
    with mdf_loop.options(engine=engine):
        assert_as_lowered_anew(graph, free_numbers(graph), {"steps": 12, "time_increment": increment})


def test_one_loop_is_made_for_all_values_of_a_kind(monkeypatch):
    bodies, model = made(monkeypatch), new(mdf_loop.prepare("examples/oscillator.yaml").graph)
    damping = np.linspace(0, 1, 7)
    with mdf_loop.options(engine="numpy"):
        found = [model(steps=20, time_increment=0.01, damping=value, collect=True)["level"] for value in damping.tolist()]
        assert len(bodies) == 1
        assert len({row.tobytes() for row in found}) == 7
        model(steps=20, time_increment=0.01, damping=1, collect=True)  # a whole number is another kind
        assert len(bodies) == 2
        model(steps=20, time_increment=0.01, damping=np.float32(0.5), collect=True)
        assert len(bodies) == 3


def test_what_a_loop_depends_on_is_read_for_each_value():
    """An axis is no value that goes through operators, and a threshold looks at a parameter before it has run."""
    parameters = [Parameter(id="axis", value=0), Parameter(id="k", value="k + 1", default_initial_value=0)]
    parameters.append(Parameter(id="y", function="onnx::Softmax", args={"input": "x", "axis": "axis"}))
    port = InputPort(id="x", default_value=[[1.0, 2.0], [3.0, 5.0]])
    graph = Graph(
        id="g", nodes=[Node(id="n", input_ports=[port], parameters=parameters, output_ports=[OutputPort(id="o", value="y")])]
    )
    model = new(graph)
    for axis in (0, 1, 0, -1):
        assert_same(model(steps=3, axis=axis), new(graph)(steps=3, axis=axis))
    assert not np.array_equal(model(steps=3, axis=0)["o"], model(steps=3, axis=1)["o"])
    graph = noisy("1", limit=2)
    graph.nodes[0].parameters[1].default_initial_value = 3
    model = new(graph)
    for start in (3, 0, 5, 1):
        assert_same(model(steps=6, mean=start), new(graph)(steps=6, mean=start))


def test_what_is_given_stays_what_it_is():
    values = Parameter(id="x", value="x * scale", default_initial_value=[1.0, 2.0])
    node = Node(
        id="n", parameters=[Parameter(id="scale", value=[1.0, 1.0]), values], output_ports=[OutputPort(id="o", value="scale")]
    )
    given = np.array([2.0, 3.0])
    model = new(Graph(id="g", nodes=[node]))
    for steps in (1, 3):
        model(steps=steps, scale=given)["o"][:] = 7
        assert given.tolist() == [2.0, 3.0]
        assert model(steps=steps, scale=given)["o"].tolist() == [2.0, 3.0]
