"""A model means the same when its mappings are sorted, when its names are others, and when it is written and read again."""

import json
import random
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

import mdf_loop
from mdf_loop.cli.new import STARTER
from mdf_loop.integrations.checking import check

ROOT = Path(__file__).parent.parent
OWN = sorted([*(ROOT / "examples").glob("*.yaml"), *(ROOT / "examples/gallery").glob("*.yaml")])

NAMES = [
    *("tau", "pi", "inf", "nan", "i", "e", "t", "dt", "self", "np", "math", "numpy", "k", "iteration", "condition"),
    *("abs", "max", "min", "sum", "round", "len", "int", "float", "exp", "sqrt", "noise", "uniform", "true", "y", "no"),
    *("größe", "名前", "µ", "é", "_", "x_next", "goes_on", "trial"),
]
"""Names that mean something elsewhere, or look as if they did."""

KEPT = {"body", "then_branch", "else_branch", "M", "cond", "v_initial", "num_scan_inputs", "index", "scanned", "let"}
"""Names that arguments of loops have."""

NODE = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        neuron:
          input_ports: {drive: {default_value: 1.5}, start: {default_value: -0.5}}
          parameters:
            scale: {value: 20.0}
            twice: {value: scale * 2 - abs(scale)}
            body:
              value:
                let: {slope: (drive - v) / scale}
                carried: {v: v + slope, w: 'max(w, v) + slope', n: n + 1}
                collected: {trace: v * pi_, level: w}
                while: v < 1 and n < 50
            run: {function: onnx::Loop, args: {M: 100, w: start * 2, v: start, n: 0, body: body}}
          output_ports:
            v: {value: run.v}
            w: {value: run.w - (run.v + run.w) / 2}
            path: {value: run.trace}
            count: {value: run.n}
            last: {value: 'run.level[-1] * twice'}
        after:
          input_ports: {v: {}}
          parameters:
            body: {value: {carried: {s: s + v * x}, scanned: [x], collected: {part: s}}}
            parts: {value: [1.0, 2.0, 3.0]}
            go: {function: onnx::Scan, args: {x: parts, s: 0.25, num_scan_inputs: 1, body: body}}
          output_ports: {s: {value: go.s}, part: {value: go.part}}
      edges:
        e1: {sender: neuron, sender_port: count, receiver: after, receiver_port: v}
""".replace("pi_", "3.0")

BY_PLACE = """
m:
  format: ModECI MDF v0.4
  graphs:
    g:
      nodes:
        n:
          parameters:
            body: {value: {carried: {v: v + 0.1 * (1.5 - v), t: t + 0.1}, collected: {q: t, p: v}, while: "v < 1"}}
            run: {function: onnx::Loop, args: {M: 10000, cond: true, v: -50.0, t: 0.0, body: body}}
          output_ports: {v: {value: "run[0]"}, t: {value: "run[1]"}, q: {value: "run[2]"}, p: {value: "run[3]"}}
"""

MODELS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in OWN}
MODELS |= {"template": STARTER.replace("NAME", "decaying"), "node": NODE, "by place": BY_PLACE}


def results(folder, text, name="model.yaml", **inputs):
    """The outputs of a model, by name."""
    path = folder / name
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mdf_loop.errors.LoopWarning)
        return dict(mdf_loop.run(path, seed=3, **inputs))


def alike(found, wanted, names=None):
    """See that outputs are the same, but for their names and their order."""
    named = {(names or {}).get(name, name): value for name, value in wanted.items()}
    assert found.keys() == named.keys()
    for name, value in named.items():
        np.testing.assert_array_equal(found[name], value, name)


@pytest.mark.parametrize("name", MODELS)
def test_sorted_and_written_again(tmp_path, name):
    wanted, content = results(tmp_path, MODELS[name]), yaml.safe_load(MODELS[name])
    alike(results(tmp_path, yaml.safe_dump(content, sort_keys=True)), wanted)
    alike(results(tmp_path, json.dumps(content), "model.json"), wanted)
    alike(results(tmp_path, json.dumps(content, sort_keys=True), "sorted.json"), wanted)
    model = mdf_loop.load(tmp_path / "model.yaml")
    model.to_yaml_file(str(tmp_path / "again.yaml"))
    alike(results(tmp_path, (tmp_path / "again.yaml").read_text()), wanted)


def ids_of(content):
    """The names of nodes, ports, parameters, and values of equations in a model."""
    (model,) = content.values()
    found = set()
    for graph in model["graphs"].values():
        for node, said in graph["nodes"].items():
            found.add(node)
            for kind in ("input_ports", "parameters", "functions", "output_ports"):
                for id, thing in (said.get(kind) or {}).items():
                    found.add(id)
                    value = thing.get("value") if isinstance(thing, dict) else None
                    for part in ("carried", "collected", "let"):
                        found |= {*(value.get(part) or {})} if isinstance(value, dict) else set()
                    found |= {*(value.get("scanned") or [])} if isinstance(value, dict) else set()
    return sorted(found - KEPT)


def renamed(content, names):
    """A model with other names, wherever they stand; names that are called are functions."""
    pattern = re.compile(rf"(?<![\w.'])({'|'.join(map(re.escape, names))})(?![\w(])|(?<=\.)({'|'.join(map(re.escape, names))})\b")

    def text(given):
        return pattern.sub(lambda found: names[found[0]], given)

    if isinstance(content, dict):
        return {text(str(key)) if key in names else key: renamed(value, names) for key, value in content.items()}
    if isinstance(content, list):
        return [renamed(value, names) for value in content]
    return text(content) if isinstance(content, str) else content


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["node", "by place", "template", *(n for n in MODELS if "gallery" in n)])
def test_other_names(tmp_path, name, seed):
    content = yaml.safe_load(MODELS[name])
    if "onnx: " in MODELS[name] or "conditions" in MODELS[name]:
        pytest.skip("names of ONNX's text and of conditions are written in other ways")
    ids = ids_of(content)
    others = random.Random(seed).sample([n for n in NAMES if n not in ids], min(len(ids), len(NAMES) - len(ids)))
    names = dict(zip(random.Random(seed).sample(ids, len(ids)), others, strict=False))
    wanted = results(tmp_path, MODELS[name])
    changed = yaml.safe_dump(renamed(content, names), sort_keys=bool(seed % 2), allow_unicode=True)
    places = {id: ".".join(names.get(part, part) for part in id.split(".")) for id in wanted}
    alike(results(tmp_path, changed), wanted, places)
    assert not [p for p in check(tmp_path / "model.yaml") if p.kind == "error"]
