"""How deep in loops each part of a control-flow graph lies."""

from collections.abc import Collection, Mapping

Graph = Mapping[int, Collection[int]]  # nodes and their successors


def loop_depths(graph: Graph) -> dict[int, int]:
    """Count the loops around each node.

    A loop is a strongly connected part that has an edge. What it contains besides the edges back to
    the nodes through which it is entered holds the loops within it.
    """
    depths = dict.fromkeys(graph, 0)
    _add_loops(graph, depths)
    return depths


def _add_loops(graph: Graph, depths: dict[int, int]) -> None:
    parts = [part for part in _components(graph) if len(part) > 1 or part & set(graph[min(part)])]
    part_of = {node: number for number, part in enumerate(parts) for node in part}
    heads: list[set[int]] = [set() for _ in parts]
    for node, successors in graph.items():
        for to in successors:
            if to in part_of and part_of.get(node) != part_of[to]:
                heads[part_of[to]].add(to)
    for part, entered in zip(parts, heads, strict=True):
        for node in part:
            depths[node] += 1
        inside = part - (entered or {min(part)})  # a kernel may begin with a loop
        _add_loops({node: [to for to in graph[node] if to in inside] for node in part}, depths)


def _components(graph: Graph) -> list[set[int]]:
    """Strongly connected components: Tarjan's algorithm (1972), with a stack of its own."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        path = [(root, iter(graph[root]))]
        while path:
            node, successors = path[-1]
            for to in successors:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    path.append((to, iter(graph[to])))
                    break
                if to in low:  # still on the stack
                    low[node] = min(low[node], index[to])
            else:
                path.pop()
                if path:
                    above = path[-1][0]
                    low[above] = min(low[above], low[node])
                if low[node] == index[node]:
                    part = set(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    for member in part:
                        del low[member]
                    found.append(part)
    return found
