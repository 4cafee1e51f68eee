"""A kernel is its definition: what is written beside one has a reason, and there is less of it, never more."""

import collections

from in_groups import each

from mdf_loop.kernels import load_kernels
from mdf_loop.ops.batching import elementwise
from mdf_loop.ops.registry import KERNELS
from mdf_loop.ops.rows import FUNCTIONS, REASONS
from mdf_loop.step.trace import definition_of, is_traced, primitive_of

load_kernels()

MOST = {"python": 24, "lists": 9, "speed": 4, "values": 6, "open lengths": 4}
"""By reason, the most operators with a definition beside their kernel; who takes one away writes the smaller number here."""

MOST_FUNCTIONS = 112
"""Functions of numpy that are said in primitives, beside those that are one: the words in which kernels are traced."""


def written():
    """The rows of kernels of ours with a definition beside them."""
    return [entry for versions in KERNELS.values() for entry in versions if entry.define is not None and entry.built_in]


def test_no_definition_is_written_without_a_reason():
    found = collections.defaultdict(set)
    for entry in written():
        found[entry.definition.why].add((entry.domain, entry.op))
    assert {why: len(found[why]) for why in found} == MOST, {why: sorted(op for _, op in ops) for why, ops in found.items()}


def test_reasons_are_said_in_words():
    assert set(REASONS) == set(MOST)


def test_functions_of_numpy_do_not_become_more():
    assert len(FUNCTIONS) == MOST_FUNCTIONS


def test_what_an_operator_is_stands_in_one_place():
    for entry in written():
        assert not entry.facts.traced, f"{entry.op} is traced, and defined beside it"
        assert primitive_of(entry) is None, f"{entry.op} is a primitive, and defined beside it"


def test_element_wise_kernels_of_all_domains_have_a_step():
    entries = [entry for versions in KERNELS.values() for entry in versions if entry.built_in and entry.batch is elementwise]
    assert not {(e.domain, e.op) for e in entries if definition_of(e) is None and not is_traced(e)}


@each("name", FUNCTIONS, size=1000)
def test_a_function_of_numpy_is_an_operator_of_expressions(name):
    (entry,) = KERNELS["mdf", name]
    assert definition_of(entry) is FUNCTIONS[name]
    assert not is_traced(entry)
