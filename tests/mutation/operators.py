"""Small changes to a program, each of which a test should notice."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
}
"""An operator, and the one that is written in its place by mistake."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed program."""

    module: str
    line: int
    statement: str
    before: str
    after: str
    source: str

    @property
    def name(self) -> str:
        """The change and its statement, without the line, which moves with every edit above."""
        return f"{self.module}: {self.statement} [{self.before} -> {self.after}]"


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a module, in the order of its lines."""
    count = len(list(_sites(ast.parse(source))))
    for index in range(count):
        tree = ast.parse(source)
        node, change = list(_sites(tree))[index]
        before, statement = ast.unparse(node), _statement(tree, node)
        _apply(node, change)
        yield Mutant(module, node.lineno, statement, before, ast.unparse(node), ast.unparse(tree))


def _statement(tree: ast.AST, node: ast.expr) -> str:
    """Return the first line of the innermost statement that holds a node."""
    holders = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and any(part is node for part in ast.walk(each))
    ]
    return ast.unparse(holders[-1]).partition("\n")[0]  # ast.walk goes from the outside in


Change = tuple[str, int]
"""The change of a node, and the index of the changed operand."""


def _sites(tree: ast.AST) -> Iterator[tuple[ast.expr, Change]]:
    unseen = {id(each) for node in ast.walk(tree) for each in _uncomputed(node)}
    for node in ast.walk(tree):
        if id(node) in unseen:
            continue
        match node:
            case ast.Compare():
                for index, operator in enumerate(node.ops):
                    if type(operator) in SWAPS:
                        yield node, ("compare", index)
            case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPS:
                yield node, ("operator", 0)
            case ast.UnaryOp(op=ast.Not()):
                yield node, ("not", 0)
            case ast.Constant(value=bool() | int()):
                yield node, ("constant", 0)
            case _:
                continue


def _uncomputed(node: ast.AST) -> Iterator[ast.AST]:
    """Parts that a program does not compute with: annotations, and options of decorators."""
    for name in ("annotation", "returns"):
        part = getattr(node, name, None)
        if part is not None:
            yield from ast.walk(part)
    for decorator in getattr(node, "decorator_list", ()):
        yield from ast.walk(decorator)


def _apply(node: ast.expr, change: Change) -> None:
    match node, change:
        case ast.Compare(), (_, index):
            operator = SWAPS[type(node.ops[index])]()
            assert isinstance(operator, ast.cmpop)
            node.ops[index] = operator
        case ast.BoolOp() | ast.BinOp(), _:
            node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]  # of the same family
        case ast.UnaryOp(), _:
            node.op = ast.UAdd()
            node.operand = ast.Call(ast.Name("bool"), [node.operand], [])
        case ast.Constant(value=bool() as value), _:
            node.value = not value
        case ast.Constant(value=int() as value), _:
            node.value = value + 1
