"""Scheduled graphs at random: nodes in a row with stateful parameters, edges on and back, and conditions on all of it."""

import random

from modeci_mdf.mdf import Condition, Function, InputPort, Node, OutputPort, Parameter, ParameterCondition
from scheduled_models import edge, graph

SCALES = ("TimeScale.ENVIRONMENT_SEQUENCE", "TimeScale.ENVIRONMENT_STATE_UPDATE", "TimeScale.LIFE")
ON_PASSES = ("EveryNPasses", "AtPass", "BeforePass", "AfterPass", "AfterNPasses")
ON_CALLS = ("AfterNCalls", "BeforeNCalls", "AtNCalls", "AfterCall")
ON_LOOPS = ("LoopFinished", "AfterNLoopIterations", "EveryNLoopIterations", "WhenFinished")


def generated_graph(seed, share_of_loops=0):
    """The graph of a seed; each evaluation ends after 12 passes at the latest.  Some nodes may have stepped loops."""
    choose = random.Random(seed)
    names = [f"N{k}" for k in range(choose.randint(1, 4))]
    edges, loops = [], [name for name in names if share_of_loops and choose.random() < share_of_loops]
    nodes = [(_loop_node if names[k] in loops else _node)(choose, k, names, edges) for k in range(len(names))]
    conditions = {name: _condition(choose, names, name, loops) for name in names if choose.random() < 0.5}
    limit = Condition("AfterNPasses", n=choose.randint(1, 12))
    other = Condition("AllHaveRun") if choose.random() < 0.3 else _condition(choose, names, "", loops)
    until = Condition("Any", dependencies=[other, limit]) if choose.random() < 0.7 else limit
    return graph(*nodes, edges=edges, conditions=conditions, until=until)


def _node(choose, place, names, edges):
    ports = [_port(choose, k, place, names, edges) for k in range(choose.randint(0, 2))]
    x = choose.choice([port.id for port in ports] or ["c"])
    state = [
        f"s*0.5 + {x}",
        "s + 1",
        f"s + {x}",
        f"{x} - s",
        f"numpy.minimum(s + {x}, 3)",
        "s + 1 if s < 3 else 0",
        f"(s + {x})/2",
    ]
    start = choose.choice([0, 1, 0.5, "c"])
    parameters = [
        Parameter(id="c", value=choose.choice([1, 0.25, 2.0])),
        Parameter(id="s", value=choose.choice(state), default_initial_value=start),
    ]
    if choose.random() < 0.4:
        switch = [ParameterCondition(id="k", test=f"{x} > 1", value=choose.choice(["s", "0"]))] if choose.random() < 0.4 else []
        parameters.append(Parameter(id="d", value=choose.choice([f"s*2 + {x}", "c*3", f"{x}"]), conditions=switch))
    if choose.random() < 0.3:
        slope = choose.choice(["1", "s", "-t", f"{x}"])
        parameters.append(Parameter(id="t", default_initial_value=choose.choice([0, 1, "c"]), time_derivative=slope))
    if choose.random() < 0.3:
        switch = ParameterCondition(id="k", test=choose.choice([f"{x} > 1", "s>2"]), value=choose.choice(["s", "5"]))
        parameters.append(Parameter(id="w", conditions=[switch]))
    functions = []
    if choose.random() < 0.4:
        functions.append(Function(id="f", function="linear", args={"variable0": x, "slope": 2, "intercept": "s"}))
    ids = [thing.id for thing in (*parameters, *functions)]
    outputs = {"o": choose.choice(ids), f"out_{names[place]}": choose.choice(ids), f"sum_{names[place]}": " + ".join(ids)}
    return Node(
        id=names[place],
        input_ports=ports,
        parameters=parameters,
        functions=functions,
        output_ports=[OutputPort(id=name, value=value) for name, value in outputs.items()],
    )


BODY = """b (int64{of_i} i, bool{of_go} go, double x, double y)
    => (bool{of_go} {go_out}, double x_out, double y_out, double xs, int64{of_i} k)
<double limit = {{{limit}}}> {{
    part = Mul (y, {factor})
    x_out = Add (x, part)
    y_out = {y_out}
    shape = Shape (go)
    is_less = Less (x_out, limit)
    less = Expand (is_less, shape)
    {condition}
    xs = Identity (x_out)
    k = Identity (i)
}}"""

CONDITIONS = [("go", ""), ("go_out", "go_out = Identity (go)"), ("less", ""), ("go_out", "go_out = And (go, less)")]
"""Conditions that a body makes: passed on, or computed."""


def _loop_node(choose, place, names, edges):
    """A node with a stepped loop: what it is given may change, and so may its condition; it may publish how far it is."""
    ports = [_port(choose, k, place, names, edges) for k in range(choose.randint(0, 1))]
    for port in ports:  # MDF does not take it for 0 where a loop reads it
        if port.default_value is None and not any(e.receiver == names[place] and e.receiver_port == port.id for e in edges):
            port.default_value = 1.5
    known = [*(port.id for port in ports), "c"]
    go_out, condition = choose.choice(CONDITIONS)
    y_out, factor = choose.choice(["Identity (y)", "Neg (y)", "Add (y, x)"]), choose.choice(known)
    ranks = {name: choose.choice(["", "", "[1]"]) for name in ("of_i", "of_go")}
    said = ranks | {"go_out": go_out, "condition": condition, "y_out": y_out}
    cond = choose.choice([True, True, "", False, f"{choose.choice(known)} < {choose.choice([1, 2, 4])}"])
    args = {"M": choose.choice([0, 1, 3, 4, 7, 50, "", "m"]), "cond": cond, "body": "body"}
    args |= {name: choose.choice([0.5, 2, *known]) for name in ("x", "y")}
    steps = {"loop": {"iterations_per_execution": choose.randint(1, 4)}}
    is_said_of_node, is_function = choose.random() < 0.5, choose.random() < 0.3
    loop = {"id": "run", "function": "onnx::Loop", "args": args, "metadata": None if is_said_of_node else steps}
    parameters = [
        Parameter(id="c", value=choose.choice([1, 0.25, 2.0])),
        Parameter(id="m", value=choose.choice([2, 5, 6])),
        Parameter(id="body", value={"onnx": BODY.format(**said, factor=factor, limit=choose.choice([1, 3.5, 8]))}),
        Parameter(id="s", value=choose.choice(["s + 1", f"s + {known[0]}"]), default_initial_value=choose.choice([0, 0.5])),
    ]
    sent = ["run[0]", "run[1]", "run[0] + run[1]"]
    shown = [*sent, "run_finished", "s + run[0]", *(["run[2]", "run[3]", "numpy.sum(run[2])"] if choose.random() < 0.3 else [])]
    outputs = {"o": choose.choice(sent), f"out_{names[place]}": choose.choice(shown), f"at_{names[place]}": "run_iteration"}
    return Node(
        id=names[place],
        metadata=steps if is_said_of_node else None,
        input_ports=ports,
        parameters=parameters if is_function else [*parameters, Parameter(**loop)],
        functions=[Function(**loop)] if is_function else [],
        output_ports=[OutputPort(id=name, value=value) for name, value in outputs.items()],
    )


def _port(choose, k, place, names, edges):
    """A port, and perhaps edges into it: those that come from behind or from the node itself need a default value."""
    sender = choose.randrange(len(names))
    default = choose.choice([0, 1.5, 2]) if sender >= place or choose.random() < 0.1 else None
    reduce = choose.choice(["overwrite", "overwrite", "add"])
    shape, kind = choose.choice([(), (), (1,)]), choose.choice([None, "float"])
    into = f"{names[place]}.x{k}"
    if choose.random() < 0.85:
        weight = None if sender == place else choose.choice([None, 1, 0.5, 2])
        edges.append(edge(f"{names[sender]}.o -> {into}", weight))
        if reduce == "add" and default is None and choose.random() < 0.4:
            edges.append(edge(f"{names[choose.randrange(place)]}.o -> {into}", choose.choice([None, 0.5])))
    return InputPort(id=f"x{k}", default_value=default, shape=shape, type=kind, reduce=reduce)


def _condition(choose, names, owner, loops=(), depth=0):
    kinds = (
        "Always",
        "EveryNCalls",
        "AllHaveRun",
        "Threshold",
        "JustRan",
        *ON_PASSES,
        *ON_CALLS,
        *(2 * ON_LOOPS if loops else ()),
    )
    kind = choose.choice((*kinds, "All", "Any", "Not") if depth < 2 else kinds)
    n, dependency = choose.randint(0, 4), choose.choice(names)
    scale = {} if choose.random() < 0.7 else {"time_scale": choose.choice(SCALES)}
    if kind in ON_PASSES:
        return Condition(kind, n=max(n, 1) if kind == "EveryNPasses" else n, **scale)
    if kind in ON_LOOPS:
        counted = {} if kind in ("LoopFinished", "WhenFinished") else {"n": max(n, 1)}
        return Condition(kind, dependency=choose.choice(loops), **counted)
    if kind in ON_CALLS:
        return Condition(kind, dependency=dependency, n=n, **scale)
    if kind == "EveryNCalls" and owner:
        return Condition(kind, dependency=dependency, n=max(n, 1))
    if kind in ("All", "Any"):
        parts = [_condition(choose, names, owner, loops, depth + 1) for _ in range(choose.randint(1, 3))]
        return Condition(kind, dependencies=parts)
    if kind == "Not":
        return Condition(kind, condition=_condition(choose, names, owner, loops, depth + 1))
    if kind == "JustRan":  # MDF cannot answer it before anything ran
        return Condition("All", dependencies=[Condition("AllHaveRun"), Condition(kind, dependency=dependency)])
    if kind == "Threshold":
        limit, comparator = choose.choice([0, 1, 2, 2.5, 4]), choose.choice(["<", "<=", ">", ">=", "==", "!="])
        return Condition(kind, dependency=dependency, parameter=choose.choice(["s", "o"]), threshold=limit, comparator=comparator)
    return Condition("AllHaveRun" if kind == "EveryNCalls" else kind)
