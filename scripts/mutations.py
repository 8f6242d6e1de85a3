"""Mutants of a Python file: one small change each, made on the syntax tree.

Changed are operators, comparisons (the boundary, and the opposite), truth values, numbers (plus
one), strings, branches (always, never), calls with an opposite (``max`` and ``min``), functions
that can be left out (``abs``), keyword arguments, and statements with an effect of their own. Left
alone are annotations, decorators, documentation, the text of errors and warnings, ``__all__``, type
aliases, and what would die without a test worth the name (an ``axis`` that the array does not
have, an unknown word for ``errstate``, a function that returns nothing) or cannot die (the
``strict`` of a ``zip`` of equal lengths).
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
#: Of a comparison: first its boundary moved (where it has one), then its opposite.
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_PAIRS = "max min, argmax argmin, any all, maximum minimum, zeros ones, isposinf isneginf, sum mean"
OPPOSITES = {a: b for pair in _PAIRS.split(", ") for a, b in [pair.split(), pair.split()[::-1]]}
OPPOSITES |= {"nanmin": "nanmax", "zeros_like": "ones_like", "ascontiguousarray": "asarray"}
#: Calls of one argument that can be left out; ``x.copy()`` is the method among them.
LEFT_OUT = ("abs", "sqrt", "log", "exp", "square", "tanh", "cumsum", "sorted")
#: Keywords whose constants stay.
KEPT_WORDS = ("axis", "divide", "invalid", "over")


@dataclass(frozen=True)
class Mutant:
    """One changed file: where, what was changed, and the compiled result.

    ``scope`` names the outermost function or method around the change, or the class; ``imported``
    tells that the changed code runs when the module is imported.
    """

    file: str
    scope: str
    imported: bool
    line: int
    lines: range
    change: str
    code: CodeType

    @property
    def key(self) -> str:
        """What the mutant is known by: it does not change when lines move."""
        return f"{self.file} {self.scope or '(module)'}: {self.change}"


def mutants(source: str, file: str) -> list[Mutant]:
    """Return every mutant of one file, in the order of its lines."""
    tree = ast.parse(source)
    early = _called_on_import(tree)
    seen: Counter[str] = Counter()
    made = []
    for place in _places(tree, "", True, range(0)):
        for new, shown in _replacements(place):
            old = place.put(new)
            code = compile(ast.fix_missing_locations(tree), file, "exec")
            place.put(old)
            change = shown or f"{_text(place.node)} -> {_text(new)}"
            seen[place.scope + change] += 1
            count = seen[place.scope + change]
            change += f" (no. {count})" if count > 1 else ""
            where = (place.node.lineno, place.lines)
            imported = place.imported or place.scope in early
            made.append(Mutant(file, place.scope, imported, *where, change, code))
    return made


@dataclass(frozen=True)
class _Place:
    """A node, how to put another one in its place, and the statement it belongs to."""

    node: Any
    parent: Any
    field: str
    index: int | None
    scope: str
    imported: bool
    lines: range

    def put(self, node: Any) -> Any:
        if self.index is None:
            old = getattr(self.parent, self.field)
            setattr(self.parent, self.field, node)
            return old
        siblings = getattr(self.parent, self.field)
        old, siblings[self.index] = siblings[self.index], node
        return old


def _places(node: ast.AST, scope: str, imported: bool, lines: range) -> Iterator[_Place]:
    """Walk all that may be changed below ``node``."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        inside, now = scope, imported
        if isinstance(node, ast.FunctionDef) and name == "body":
            # Defaults are made on import, the body is not.
            now = False
        if imported and name == "body" and isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = f"{scope}.{node.name}".lstrip(".")
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or _untouchable(child):
                continue
            span = _head(child) if isinstance(child, ast.stmt) else lines
            if hasattr(child, "lineno"):
                yield _Place(child, node, name, index, inside, now, span)
            if not isinstance(child, ast.Raise):
                yield from _places(child, inside, now, span)


def _called_on_import(tree: ast.Module) -> set[str]:
    """Return the names that statements of the module itself call."""
    defined = ast.FunctionDef | ast.ClassDef
    nodes = [n for s in tree.body if not isinstance(s, defined) for n in ast.walk(s)]
    return {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}


def _head(node: ast.stmt) -> range:
    """Return the lines of a statement, without those of the statements in it."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(last, node.lineno) + 1)


def _untouchable(node: ast.AST) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.Assign):
        text = ast.unparse(node)
        return text.startswith("__all__") or "TypeVar(" in text or "NDArray[" in text
    if isinstance(node, ast.AnnAssign):
        return "TypeAlias" in ast.unparse(node.annotation)
    warning = isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn"
    return warning or isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr)


def _replacements(place: _Place) -> Iterator[tuple[Any, str]]:
    """Give what may stand in a place instead, and how to show it (empty: old -> new)."""
    node = place.node
    if isinstance(node, ast.stmt):
        yield from _statements(place)
    elif isinstance(node, ast.Constant):
        if isinstance(place.parent, ast.keyword) and _kept(place.parent):
            return
        for value in _constants(node.value):
            new = ast.copy_location(ast.Constant(value), node)
            yield new, _within(place, new)
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OPERATORS:
        yield _with(node, op=OPERATORS[type(node.op)]()), ""
    elif isinstance(node, ast.UnaryOp):
        yield node.operand, ""
    elif isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                yield _with(node, ops=[*node.ops[:i], other(), *node.ops[i + 1 :]]), ""
    elif isinstance(node, ast.IfExp):
        yield node.body, ""
        yield node.orelse, ""
    elif isinstance(node, ast.Call):
        yield from _calls(node)


def _kept(keyword: ast.keyword) -> bool:
    """Whether the constant of a keyword stays: a flag goes with its keyword, see ``_calls``."""
    return keyword.arg in KEPT_WORDS or isinstance(keyword.value.value, bool)


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield value + 1
    elif isinstance(value, str):
        yield "XX" + value


def _calls(node: ast.Call) -> Iterator[tuple[Any, str]]:
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name in OPPOSITES:
        field = "attr" if isinstance(node.func, ast.Attribute) else "id"
        yield _with(node, func=_with(node.func, **{field: OPPOSITES[name]})), ""
    if name in LEFT_OUT and len(node.args) == 1:
        yield node.args[0], ""
    if name == "copy" and not node.args and isinstance(node.func, ast.Attribute):
        yield node.func.value, ""
    for i, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            fewer = _with(node, keywords=[*node.keywords[:i], *node.keywords[i + 1 :]])
            yield fewer, f"{_text(node)}: without {keyword.arg}"


def _statements(place: _Place) -> Iterator[tuple[Any, str]]:
    node = place.node
    gone = ast.copy_location(ast.Pass(), node)
    if isinstance(node, ast.If):
        for answer in (True, False):
            forced = _with(node, test=ast.copy_location(ast.Constant(answer), node.test))
            yield forced, f"if {_text(node.test)}: {'always' if answer else 'never'}"
    elif isinstance(node, ast.With):
        body = ast.If(ast.Constant(True), node.body, [])
        yield ast.copy_location(body, node), f"without {ast.unparse(node).splitlines()[0]}"
    elif isinstance(node, ast.Break | ast.Continue):
        yield gone, f"without {_text(node)}"
    elif isinstance(node, ast.Raise):
        if not (isinstance(place.parent, ast.If) and len(place.parent.body) == 1):
            yield gone, f"without {_text(node)}"
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        yield _with(node, op=OPERATORS[type(node.op)]()), ""
        yield gone, f"without {_text(node)}"
    elif _acts(node):
        yield gone, f"without {_text(node)}"


def _acts(node: ast.stmt) -> bool:
    """Whether a statement changes something that exists without it."""
    if isinstance(node, ast.Assign):
        return isinstance(node.targets[0], ast.Subscript | ast.Attribute)
    return isinstance(node, ast.Expr)


def _within(place: _Place, new: ast.AST) -> str:
    """Show a constant with what is around it."""
    around = place.parent
    if isinstance(around, ast.arguments):
        optional = around.kwonlyargs if place.field == "kw_defaults" else around.args[::-1]
        at = place.index if place.field == "kw_defaults" else len(around.defaults) - 1 - place.index
        return f"{optional[at].arg}={_text(place.node)} -> {_text(new)}"
    if not isinstance(around, ast.expr | ast.keyword | ast.Assign | ast.AnnAssign):
        return ""
    before = _text(around)
    old = place.put(new)
    after = _text(around)
    place.put(old)
    return f"{before} -> {after}"


def _with(node: Any, **fields: Any) -> Any:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())
