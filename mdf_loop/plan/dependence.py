"""Who needs whom, within an iteration and from one to the next: the components of the dependence graph.

Vertices are the nodes that are not the same in every iteration, and the carried values.  A component with a
cycle is a recurrence; everything else could run for many iterations at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mdf_loop.ir import Node, record


@record
class Component:
    """Nodes and carried values that need each other, and the components they need besides.

    ``cyclic`` is false for a single node, and for a single carried value that does not need itself.
    """

    nodes: tuple[Node, ...]
    carried: tuple[str, ...]
    cyclic: bool
    needs: frozenset[int] = frozenset()


def components(nodes: Sequence[Node], carried: Mapping[str, str], tied: Sequence[Node] = ()) -> list[Component]:
    """Strongly connected components, each behind those that it needs.

    Parameters
    ----------
    nodes : sequence of Node
        In the order of the body.
    carried : mapping
        Carried value -> the value that feeds it, see :func:`~mdf_loop.plan.invariants.carried_from`.
    tied : sequence of Node
        Nodes that have to take turns in their order, such as those that draw random numbers.
    """
    names = list(carried)
    writer = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    writer |= {name: len(nodes) + k for k, name in enumerate(names)}
    needs = [[writer[name] for name in node.reads if name in writer] for node in nodes]
    needs += [[writer[carried[name]]] if carried[name] in writer else [] for name in names]
    place = {id(node): k for k, node in enumerate(nodes)}
    knot = [place[id(node)] for node in tied]
    for before, after in zip(knot, knot[1:] + knot[:1], strict=True):
        needs[after].append(before)
    return _described(_strongly_connected(needs), needs, nodes, names)


def _described(groups: list[list[int]], needs: list[list[int]], nodes: Sequence[Node], names: list[str]) -> list[Component]:
    home = {vertex: k for k, group in enumerate(groups) for vertex in group}
    found = []
    for k, group in enumerate(groups):
        group = sorted(group)
        found.append(
            Component(
                tuple(nodes[v] for v in group if v < len(nodes)),
                tuple(names[v - len(nodes)] for v in group if v >= len(nodes)),
                cyclic=len(group) > 1 or group[0] in needs[group[0]],
                needs=frozenset(home[other] for v in group for other in needs[v]) - {k},
            )
        )
    return found


def _strongly_connected(needs: list[list[int]]) -> list[list[int]]:
    """Tarjan's algorithm without recursion, so that a body may have any number of nodes."""
    number: dict[int, int] = {}
    lowest: dict[int, int] = {}
    open_: list[int] = []
    is_open: set[int] = set()
    groups: list[list[int]] = []
    for root in range(len(needs)):
        if root in number:
            continue
        todo = [(root, iter(needs[root]))]
        number[root] = lowest[root] = len(number)
        open_.append(root)
        is_open.add(root)
        while todo:
            vertex, rest = todo[-1]
            for other in rest:
                if other not in number:
                    number[other] = lowest[other] = len(number)
                    open_.append(other)
                    is_open.add(other)
                    todo.append((other, iter(needs[other])))
                    break
                if other in is_open:
                    lowest[vertex] = min(lowest[vertex], number[other])
            else:
                todo.pop()
                if todo:
                    lowest[todo[-1][0]] = min(lowest[todo[-1][0]], lowest[vertex])
                if lowest[vertex] == number[vertex]:
                    group: list[int] = []
                    while not group or group[-1] != vertex:
                        group.append(open_.pop())
                        is_open.discard(group[-1])
                    groups.append(group)
    return groups
