"""The JSON Schema of a tool's arguments, as its signature says it."""

import ast
from collections.abc import Mapping
from typing import Any

from macaron.harness.tools import ToolFault

TYPES = {
    "str": "string", "int": "integer", "float": "number", "bool": "boolean", "list": "array",
    "dict": "object",
}  # fmt: skip


def derive(function: ast.FunctionDef) -> dict[str, Any]:
    """The schema that a function's annotations and defaults say.

    Raises:
        ToolFault: an annotation is not one of str, int, float, bool, list, dict, None and what is
            made of them by `[...]` and `|`.
    """
    given = defaults(function)
    arguments = (*function.args.args, *function.args.kwonlyargs)
    return {
        "type": "object",
        "properties": {a.arg: _annotated(a.annotation) for a in arguments},
        "required": [name for name, default in given.items() if default is None],
        "additionalProperties": False,
    }


def defaults(function: ast.FunctionDef) -> dict[str, ast.expr | None]:
    """Argument -> its default; None where it has to be given."""
    found = function.args
    given = [None] * (len(found.args) - len(found.defaults)) + found.defaults
    names = [a.arg for a in (*found.args, *found.kwonlyargs)]
    return dict(zip(names, [*given, *found.kw_defaults], strict=True))


def check_fit(function: ast.FunctionDef, parameters: Mapping[str, Any]) -> None:
    """Whether a function takes exactly the arguments of a purpose.

    Raises:
        ToolFault: it takes others. One more, with a default, would be a way in that no trial tests.
    """
    wanted, taken = set(parameters.get("properties", {})), set(defaults(function))
    if wanted != taken:
        raise ToolFault(
            f"it must take exactly ({', '.join(sorted(wanted))}), "
            f"and takes ({', '.join(sorted(taken))})"
        )


def _annotated(node: ast.expr | None) -> dict[str, Any]:
    """The schema that one annotation says; none says nothing."""
    match node:
        case None:
            return {}
        case ast.Constant(value=None):
            return {"type": "null"}
        case ast.Name(id=name) if name in TYPES:
            return {"type": TYPES[name]}
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return {"anyOf": [_annotated(left), _annotated(right)]}
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return {"type": "array", "items": _annotated(item)}
        case ast.Subscript(
            value=ast.Name(id="dict"), slice=ast.Tuple(elts=[ast.Name(id="str"), item])
        ):
            return {"type": "object", "additionalProperties": _annotated(item)}
    raise ToolFault(
        f"the annotation {ast.unparse(node)!r:.60} is not taken; there are "
        "str, int, float, bool, list[...], dict[str, ...], None and |"
    )
