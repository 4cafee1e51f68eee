"""Parameters that are known are found again, with errors that are as large as what is missed."""

import tracemalloc
import warnings

import numpy as np
import pytest
from modeci_mdf.mdf import Graph, InputPort, Model, Node, OutputPort, Parameter

pytest.importorskip("scipy", reason="a fit is scipy's: pip install -e .[fit]")

import mdf_loop
from mdf_loop.errors import (
    ArgumentError,
    KindError,
    LoopError,
    LoopInterrupted,
    LoopStopped,
    LoopTimeout,
    LoopWarning,
)
from mdf_loop.inference.distances import Distance
from mdf_loop.inference.estimates import Search

DDM = "examples/drift_diffusion.yaml"
OVER = {"drift": (0.2, 3.0), "bound": (0.5, 2.0)}


def decay(*outputs):
    """A value that decays, with its time course."""
    body = {"carried": {"v": "v - dt * v / tau"}, "collected": {"trace": "v"}}
    ports = [InputPort(id="tau", default_value=10.0), InputPort(id="start", default_value=2.0)]
    parameters = [Parameter(id="dt", value=0.5), Parameter(id="body", value=body)]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 40, "v": "start", "body": "body"}))
    texts = {"last": "run[0]", "trace": "run[1]", **dict(outputs)}
    node = Node(id="n", input_ports=ports, parameters=parameters)
    node.output_ports = [OutputPort(id=name, value=text) for name, text in texts.items()]
    return Model(id="decay", graphs=[Graph(id="decay", nodes=[node])])


def spiking():
    """A leaky neuron that fires, with its voltage, and how often it fired."""
    let = {"w": "v + 0.1 * (10.0 * current - v) / tau", "fired": "w > 15.0"}
    body = {"let": let, "carried": {"v": "where(fired, 0.0, w)", "n": "n + fired"}, "collected": {"volt": "v"}}
    parameters = [Parameter(id="current", value=2.3), Parameter(id="tau", value=15.2), Parameter(id="body", value=body)]
    parameters.append(Parameter(id="run", function="onnx::Loop", args={"M": 3000, "v": 0.0, "n": 0, "body": "body"}))
    ports = [OutputPort(id="volt", value="run.volt"), OutputPort(id="count", value="run.n")]
    return Model(id="spiking", graphs=[Graph(id="g", nodes=[Node(id="n", parameters=parameters, output_ports=ports)])])


def are_found(found, truth, most=4):
    for name, value in truth.items():
        assert abs(found[name] - value) < most * found.errors[name], (name, found)


def test_drift_and_bound_are_recovered():
    truth = {"drift": 1.2, "bound": 1.3}
    observed = mdf_loop.run(DDM, trials=600, seed=1, **truth)
    data = {name: observed[name] for name in ("reaction_time", "evidence")}
    found = mdf_loop.fit(DDM, data, OVER, trials=400, seed=4)
    are_found(found, truth)
    assert found.errors["drift"] < 0.2
    assert found.errors["bound"] < 0.1
    assert dict(found) == {name: found[name] for name in OVER}
    assert len(found) == 2
    losses = np.where(found.trace["trials"] == 400, found.trace["loss"], np.inf)
    assert set(found.trace["trials"]) == {133, 400}
    assert found.loss == losses.min()
    best = losses.argmin()
    assert found["drift"] == found.trace["drift"][best]
    assert "drift = " in repr(found)


def test_the_loss_of_a_choice_changes_evenly_with_each_trial_of_it():
    rng = np.random.default_rng(1)
    sizes = 1.3 + 0.05 * rng.random(200)
    signed = np.array([np.where(np.arange(200) < lower, -sizes, sizes) for lower in range(101)])
    for values in (signed, np.sign(signed)):
        distance = Distance({"evidence": values[50]}, {"evidence": ()})
        changes = np.abs(np.diff(np.sqrt(distance({"evidence": values}))))
        assert changes.min() > changes.max() / 5


@pytest.mark.parametrize("counts", [np.repeat(range(6), [15, 40, 60, 50, 25, 10]), np.arange(200) // 4 % 45], ids=["few", "many"])
def test_the_loss_of_counts_changes_with_each_of_them(counts):
    distance = Distance({"n": counts}, {"n": ()})
    at = np.arange(200)
    losses = distance({"n": np.array([counts + ((at >= 110 - more) & (at < 110)) for more in range(50)])})
    assert (np.diff(losses) > 0).all()


def test_reaction_times_are_compared_choice_by_choice():
    rng = np.random.default_rng(2)
    choice, fast, slow = rng.integers(0, 2, 400), rng.gamma(2, 0.2, 400), 1 + rng.gamma(2, 0.2, 400)
    paired = {"choice": choice, "rt": np.where(choice == 1, fast, slow)}
    turned = {"choice": 1 - choice, "rt": paired["rt"]}
    distance = Distance(paired, {"choice": (), "rt": ()})
    same, other = distance({name: np.array([paired[name], turned[name]]) for name in paired})
    assert same < 1e-20
    assert other > 1


def test_estimates_miss_the_truth_by_about_their_errors():
    truth, quick = {"drift": 1.2, "bound": 1.3}, {"dt": 0.004, "max_steps": 3000}
    model, missed = mdf_loop.prepare(DDM), []
    for seed in (*range(7), 19):
        observed = model(trials=300, seed=1000 + seed, **truth, **quick)
        data = {name: observed[name] for name in ("reaction_time", "evidence")}
        found = mdf_loop.fit(model, data, OVER, trials=400, seed=seed, **quick)
        missed.append([(found[name] - value) / found.errors[name] for name, value in truth.items()])
    assert 0.4 < np.std(missed) < 1.7
    assert np.abs(missed).max() < 4


@pytest.mark.parametrize("choices", [1, [True], "evidence"])
@pytest.mark.parametrize("seed", [1, 2])
def test_where_one_choice_alone_was_observed_estimates_have_errors_of_some_size(choices, seed):
    runs = mdf_loop.run(DDM, trials=300, drift=2.0, seed=seed)
    right = runs["evidence"] > 0  # all but some two in a hundred
    signs = runs["evidence"][right] if choices == "evidence" else np.repeat(choices, right.sum())
    found = mdf_loop.fit(
        DDM, {"reaction_time": runs["reaction_time"][right], "evidence": signs}, over={"drift": (0.2, 4)}, trials=300, seed=seed
    )
    assert 0.03 < found.errors["drift"] < 0.4
    assert abs(found["drift"] - 2) < 3.5 * found.errors["drift"]


def test_a_parameter_that_the_data_do_not_decide_has_an_infinite_error():
    model = mdf_loop.prepare(decay(("first", "start * 1")))
    with pytest.warns(LoopWarning, match="do not decide tau"):
        found = mdf_loop.fit(model, {"first": 1.5}, {"tau": (2, 20), "start": (0.5, 3)})
    assert np.isinf(found.errors["tau"])
    assert abs(found["start"] - 1.5) < 1e-3


def test_an_estimate_at_its_bound_is_a_warning():
    model = mdf_loop.prepare(decay())
    with pytest.warns(LoopWarning, match=r"tau, 5, is at its bound: over\['tau'\] = \(2, 5\) may be too narrow"):
        mdf_loop.fit(model, {"trace": model(tau=8.0)["trace"]}, {"tau": (2, 5)})


def test_where_the_loss_jumps_errors_are_unknown_and_noise_is_no_misfit():
    model = mdf_loop.prepare(spiking())
    volt = model()["volt"] + np.random.default_rng(0).normal(size=3000)
    with pytest.warns(LoopWarning) as said:
        found = mdf_loop.fit(model, {"volt": volt}, {"current": (1, 4), "tau": (5, 40)}, trials=1)
    assert abs(found["current"] - 2.3) < 0.05
    assert np.isnan([*found.errors.values()]).all()
    assert len(said) == 1
    assert "the loss is not smooth here" in str(said[0].message)


def test_errors_of_a_long_time_course_take_no_matrix_of_all_its_values():
    values = np.random.default_rng(1).normal(size=4000)
    distance, simulated = Distance({"v": values}, {"v": (4000,)}), {"v": np.zeros((1, 1, 4000))}
    tracemalloc.start()
    found = distance.propagated(np.ones((1, 4000)), distance.observed + 1.0, simulated)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found, [[4000.0]])
    assert most < 1e6


def test_a_time_course_in_other_units_is_a_warning():
    model = mdf_loop.prepare(decay())
    with pytest.warns(LoopWarning, match="standard deviations of an observation in trace: are the units"):
        mdf_loop.fit(model, {"trace": 1000 * model()["trace"]}, {"tau": (2, 20)})


@pytest.mark.parametrize("counts", [30, [30, 31]], ids=["one", "two"])
def test_few_counts_give_no_errors(counts):
    model = mdf_loop.prepare(spiking())
    with pytest.warns(LoopWarning) as said:
        found = mdf_loop.fit(model, {"count": counts}, {"current": (1, 4)}, trials=1)
    assert np.isinf(found.errors["current"])
    words = " ".join(str(each.message) for each in said)
    assert "too few data for standard errors" in words
    assert "do not decide current" in words


@pytest.mark.filterwarnings("ignore::mdf_loop.errors.LoopWarning")
def test_where_all_runs_fail_one_of_them_says_why():
    with pytest.raises(LoopError, match=r"finite loss: with max_steps = \d.*one integer"):
        mdf_loop.fit(DDM, {"reaction_time": RT}, {"max_steps": (1.0, 9.0)}, trials=1)


def test_data_are_columns_of_a_table():
    pandas = pytest.importorskip("pandas", reason="a table is one of pandas")
    model = mdf_loop.prepare(decay())
    table = pandas.DataFrame({"trace": model(tau=7.0)["trace"]})
    assert abs(mdf_loop.fit(model, table, {"tau": (2, 20)})["tau"] - 7.0) < 1e-2


def test_values_of_a_time_course_may_be_missing():
    model = mdf_loop.prepare(decay())
    trace = model(tau=7.0)["trace"].copy()
    trace[5:20] = np.nan
    assert abs(mdf_loop.fit(model, {"trace": trace}, {"tau": (2, 20)})["tau"] - 7.0) < 1e-2


STEPPED = """
m:
  format: ModECI MDF v0.4
  graphs:
    m:
      nodes:
        n:
          parameters:
            rate: {value: 0.3}
            v: {value: "v + rate * (1 - v) WITH", default_initial_value: 0.0}
          output_ports: {v: {value: v}}
      conditions:
        termination: {environment_state_update: {type: AfterNPasses, kwargs: {n: 20}}}
"""


@pytest.mark.parametrize(("noise", "trials"), [("", 1), ("+ 0.1 * numpy.random.normal(0, 1)", 7)])
def test_a_model_without_noise_runs_once_for_each_candidate(tmp_path, noise, trials):
    path = tmp_path / "stepped.yaml"
    path.write_text(STEPPED.replace("WITH", noise))
    search = Search(path, {"v": 0.5}, {"rate": (0.01, 0.9)}, lambda simulated, data: 1.0, 7, 1, {})
    assert search.simulator.trials == trials


def test_progress_counts_candidates_and_stops_with_the_best_so_far():
    model, calls = mdf_loop.prepare(decay()), []
    target = {"trace": model(tau=7.0)["trace"]}

    def stop(done, total):
        calls.append((done, total))
        return len(calls) < 5

    with pytest.raises(LoopStopped, match="progress") as stopped:
        mdf_loop.fit(model, target, {"tau": (2, 20)}, progress=stop)
    assert [done for done, _ in calls] == [16, 32, 48, 64, 80]
    best = stopped.value.results
    assert best.loss == best.trace["loss"].min()
    assert len(best.trace["loss"]) == 80
    assert np.isnan(best.errors["tau"])
    seen = []
    with mdf_loop.options(progress=seen.append):
        found = mdf_loop.fit(model, target, {"tau": (2, 20)})
    assert {report.unit for report in seen} == {"simulations"}
    assert seen[-1].iteration == len(found.trace["loss"]) <= seen[-1].total


def test_ctrl_c_and_a_timeout_keep_the_best_so_far():
    model, calls = mdf_loop.prepare(decay()), []

    def interrupt(simulated, data):
        calls.append(1)
        if len(calls) > 40:
            raise KeyboardInterrupt
        return (simulated["last"][0] - 1.0) ** 2

    with pytest.raises(LoopInterrupted, match="interrupted") as ended:
        mdf_loop.fit(model, None, {"tau": (2, 20)}, interrupt)
    assert len(ended.value.results.trace["loss"]) == 32
    observed = mdf_loop.run(DDM, trials=50, seed=1)["reaction_time"]
    with mdf_loop.options(timeout=0.5), pytest.raises(LoopTimeout) as ended:
        mdf_loop.fit(DDM, {"reaction_time": observed}, OVER, trials=20_000)
    assert isinstance(ended.value, LoopTimeout)


def test_the_same_seed_gives_the_same_estimates():
    observed = mdf_loop.run(DDM, trials=100, seed=1, drift=1.0)["reaction_time"]
    one, other = (mdf_loop.fit(DDM, {"reaction_time": observed}, {"drift": (0.2, 3.0)}, trials=60, seed=4) for _ in range(2))
    assert dict(one) == dict(other)
    assert one.errors == other.errors


def test_a_time_course_is_fitted_and_its_errors_are_those_of_least_squares():
    rng, model = np.random.default_rng(3), mdf_loop.prepare(decay())
    truth = {"tau": 7.0, "start": 1.5}
    clean, scatter = model(**truth)["trace"], 0.02
    missed = []
    for _ in range(6):
        found = mdf_loop.fit(
            model, {"trace": clean + scatter * rng.normal(size=clean.shape)}, {"tau": (2, 20), "start": (0.5, 3)}
        )
        missed.append([(found[name] - value) / found.errors[name] for name, value in truth.items()])
    assert 0.3 < np.std(missed) < 2.5
    steps = np.array([model(tau=7.01, start=1.5)["trace"] - clean, model(tau=7.0, start=1.51)["trace"] - clean]).T / 0.01
    by_hand = scatter * np.sqrt(np.diag(np.linalg.inv(steps.T @ steps)))
    np.testing.assert_allclose([*found.errors.values()], by_hand, rtol=0.4)


def test_a_likelihood_is_an_output_and_its_errors_are_those_of_its_curvature():
    rng = np.random.default_rng(8)
    values = rng.normal(0.7, 1.0, 400)
    body = {"scanned": ["x"], "carried": {"s": "s + (x - mean) ** 2 / 2"}}
    parameters = [Parameter(id="mean", value=0.0), Parameter(id="body", value=body)]
    args = {"s": 0.0, "x": "data", "num_scan_inputs": 1, "body": "body"}
    parameters.append(Parameter(id="run", function="onnx::Scan", args=args))
    ports = [InputPort(id="data", default_value=[0.0])]
    node = Node(id="n", input_ports=ports, parameters=parameters, output_ports=[OutputPort(id="surprise", value="run")])
    model = Model(id="m", graphs=[Graph(id="g", nodes=[node])])
    found = mdf_loop.fit(mdf_loop.prepare(model), None, {"mean": (-2.0, 3.0)}, "surprise", **{"n.data": values})
    assert abs(found["mean"] - values.mean()) < 1e-3
    np.testing.assert_allclose(found.errors["mean"], 1 / np.sqrt(400), rtol=1e-6)


def test_a_loss_of_ones_own_gets_trials_and_data():
    observed = mdf_loop.run(DDM, trials=300, seed=1, drift=1.0)["reaction_time"]
    shapes = []

    def loss(simulated, data):
        shapes.append((simulated["reaction_time"].shape, data["reaction_time"].shape))
        return (simulated["reaction_time"].mean() - data["reaction_time"].mean()) ** 2

    found = mdf_loop.fit(DDM, {"reaction_time": observed}, {"drift": (0.2, 3.0)}, loss, trials=200, seed=2)
    assert set(shapes) == {((200,), (300,))}
    assert abs(found["drift"] - 1.0) < 0.4
    assert np.isnan(found.errors["drift"])


def test_an_output_of_two_values_is_compared_by_its_mean():
    model = mdf_loop.prepare(decay(("high", "(run[0] > 1.0) * 1")))
    found = mdf_loop.fit(model, {"high": np.array([1, 1, 1, 1, 1]), "last": np.full(5, 1.2)}, {"start": (0.5, 20.0)}, tau=10.0)
    assert abs(model(start=found["start"], tau=10.0)["last"] - 1.2) < 0.01


def test_data_of_different_numbers_of_trials_are_compared_separately_with_a_warning():
    observed = mdf_loop.run(DDM, trials=100, seed=1)
    data = {"evidence": observed["evidence"], "reaction_time": observed["reaction_time"][:-3]}
    with pytest.warns(LoopWarning, match="compared separately, not trial by trial: evidence has 100, reaction_time has 97"):
        Distance(data, {"evidence": (), "reaction_time": ()})


def test_a_plot_is_of_times_rather_than_of_choices():
    pytest.importorskip("matplotlib", reason="pip install -e .[plot]")
    observed = mdf_loop.run(DDM, trials=100, seed=1)
    data = {"evidence": np.sign(observed["evidence"]), "reaction_time": observed["reaction_time"]}
    found = mdf_loop.fit(DDM, data, {"drift": (0.2, 3.0)}, trials=20, seed=1)
    ax, other = found.plot(), found.plot("evidence")
    assert (ax.get_xlabel(), other.get_xlabel()) == ("reaction_time", "evidence")
    assert ax.get_title() == "not drawn: evidence; plot('evidence') draws it"
    assert not other.get_title()


def test_it_plots_what_was_observed_and_what_is_simulated():
    pytest.importorskip("matplotlib", reason="pip install -e .[plot]")
    import matplotlib as mpl

    mpl.use("agg")
    observed = mdf_loop.run(DDM, trials=80, seed=1)["reaction_time"]
    found = mdf_loop.fit(DDM, {"reaction_time": observed}, {"drift": (0.2, 3.0)}, trials=50, seed=2)
    ax = found.plot()
    assert ax.get_xlabel() == "reaction_time"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["observed", "simulated"]
    model = mdf_loop.prepare(decay())
    assert len(mdf_loop.fit(model, {"trace": model()["trace"]}, {"tau": (2, 20)}).plot("trace").lines) == 2
    with pytest.raises(ArgumentError, match="no observations of"):
        found.plot("evidence")


@pytest.mark.parametrize("kind", ["U", object])
def test_numbers_that_a_table_has_as_texts(kind):
    model = mdf_loop.prepare(decay())
    trace = model()["trace"]
    found = [mdf_loop.fit(model, {"trace": data}, {"tau": (2, 20)}) for data in (trace, trace.astype(kind))]
    assert found[0] == found[1]


RT = np.linspace(0.5, 2, 30)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: mdf_loop.fit(DDM, {"reaction_tim": RT}, OVER), ArgumentError, "did you mean 'reaction_time'"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, {"drft": (0, 1)}), ArgumentError, "did you mean 'drift'"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, {"drift": (3.0, 0.2)}), ArgumentError, r"write \(0.2, 3\)"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, {"drift": (1, 1)}), ArgumentError, "both bounds are the same"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, {"drift": (0, np.inf)}), ArgumentError, "finite bounds"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, {"drift": 1.0}), KindError, "a pair of bounds"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}), KindError, "over is a mapping"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": [*RT, np.nan]}, OVER), ArgumentError, "1 of 31 values that are nan"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": []}, OVER), ArgumentError, "is empty"),
        (
            lambda: mdf_loop.fit(DDM, {"evidence": ["l", "r", "l"]}, OVER),
            KindError,
            r"numbers; got l, r: .* \[{'l': 0, 'r': 1}\[each\]",
        ),
        (lambda: mdf_loop.fit(DDM, {"evidence": [1.0, None]}, OVER), ArgumentError, "1 of 2 values that are nan"),
        (lambda: mdf_loop.fit(DDM, "trials.csv", OVER), KindError, r"pandas\.read_csv\('trials.csv'\)"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": np.ones((3, 4))}, OVER, trials=9), ArgumentError, "a number for each trial"),
        (lambda: mdf_loop.fit(DDM, None, OVER), ArgumentError, "nothing to fit"),
        (
            lambda: mdf_loop.fit(DDM, {"drift": RT}, OVER),
            ArgumentError,
            r"'drift' is an input .* fit\(model, \.\.\., drift=\.\.\.\)",
        ),
        (lambda: mdf_loop.fit(DDM, {"path": RT}, OVER, "evidence"), ArgumentError, "not compared with data"),
        (lambda: mdf_loop.fit(DDM, RT, OVER), KindError, "data is a mapping"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, OVER, 3), KindError, "loss is a function"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, OVER, lambda s, d: "x", trials=9), KindError, "must give a number"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, OVER, lambda s, d: np.nan, trials=9), LoopError, "finite loss"),
        (lambda: mdf_loop.fit(DDM, {"reaction_time": RT}, OVER, drift=1.0), ArgumentError, "drift"),
        (lambda: mdf_loop.fit(DDM, {"path": RT}, OVER, trials=9), LoopError, "output 'path' has .* in some runs"),
        (lambda: mdf_loop.fit(decay(), {"trace": RT}, {"tau": (2, 20)}), ArgumentError, r"the shape \(40,\) of one run"),
        (lambda: mdf_loop.fit(decay(), None, {"tau": (2, 20)}, "trace"), ArgumentError, "one number; it has 1 axes"),
        (lambda: mdf_loop.fit(decay(), {"last": 1.0}, {"tau": (2, 20)})["tua"], KeyError, "there are tau"),
    ],
)
def test_errors_say_what_came(call, error, words):
    with pytest.raises(error, match=words):
        call()


SIGNED = "34 of 200 observations of reaction_time are below 0, and almost no simulation is: if the sign means the choice"


@pytest.mark.parametrize(
    ("change", "said", "are_unknown"),
    [
        (lambda t, x: (1000 * t, x), "standard deviations of an observation in reaction_time: are the units", False),
        (lambda t, x: (t, 5 * np.sign(x)), r"34 of 200 observations of evidence are -5, .*\(these have -1.1, -1, 1, 1.1\)", True),
        (lambda t, x: (t, 1.0 * (x > 0)), "34 of 200 observations of evidence are 0, and almost no simulation is", True),
        (lambda t, x: (t * np.sign(x), x), SIGNED, True),
        (lambda t, x: (t * np.sign(x), None), SIGNED, True),
    ],
    ids=["units", "codes", "a code that is missed", "signs", "signs alone"],
)
def test_data_in_other_units_or_codes_are_a_warning(change, said, are_unknown):
    outputs = mdf_loop.run(DDM, trials=200, seed=1)
    times, evidence = change(outputs["reaction_time"], outputs["evidence"])
    data = {"reaction_time": times} | ({} if evidence is None else {"evidence": evidence})
    with pytest.warns(LoopWarning, match=said):
        found = mdf_loop.fit(DDM, data, {"drift": (0.2, 3.0)}, trials=200, seed=2)
    assert np.isnan(found.errors["drift"]) == are_unknown


@pytest.mark.parametrize("change", [lambda x: x, np.sign, lambda x: x > -9], ids=["as simulated", "signs", "one choice"])
def test_data_as_the_model_gives_them_are_not(change):
    outputs = mdf_loop.run(DDM, trials=200, seed=1)
    data = {"reaction_time": outputs["reaction_time"], "evidence": change(outputs["evidence"])}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = mdf_loop.fit(DDM, data, {"drift": (0.2, 3.0)}, trials=200, seed=2)
    assert np.isfinite(found.errors["drift"])
