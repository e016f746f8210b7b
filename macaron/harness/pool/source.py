"""What may be saved as a tool: the source of one plain function, read as untrusted text.

The host parses it and never runs it. These checks keep a tool apart from the session it was
written in (it sees its arguments and nothing else); that it does no harm is the sandbox's part.
"""

import ast
import builtins
import keyword
import re
import symtable
import textwrap
import unicodedata
import warnings
from collections.abc import Collection, Iterator

from macaron.files import digest_bytes
from macaron.harness.tools import ToolFault

MAX_SOURCE = 8_000
"""Characters of a tool's source."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,47}\Z")
MODULES = ("collections", "functools", "itertools", "json", "math", "re", "string")
"""What a tool may import: what the sandbox has."""
CLOSED = frozenset((
    "__import__", "breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr",
    "globals", "help", "input", "locals", "open", "quit", "setattr", "vars",
))  # fmt: skip
"""Built-ins by which a function would see or change more than its arguments."""
OPEN = frozenset(name for name in dir(builtins) if not name.startswith("_")) - CLOSED
_FRAMES = re.compile(r"_|(f|gi|cr|ag|tb)_[a-z]")


def normalise(source: str) -> str:
    """The one spelling of line ends, indentation of the whole and surrounding blank lines."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return textwrap.dedent(text).strip("\n").rstrip() + "\n"


def check_name(name: str, taken: frozenset[str] = frozenset()) -> str:
    """The name, once a tool may have it.

    Args:
        name: of the function.
        taken: names of the session's other tools.

    Raises:
        ToolFault: it cannot be a tool's.
    """
    if not NAME.match(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ToolFault(f"{name!r:.60} cannot name a tool: lower-case letters, digits and _ can")
    if name in dir(builtins) or name in MODULES:
        raise ToolFault(f"{name!r} is Python's own; choose another name")
    if name in taken:
        raise ToolFault(f"{name!r} is already the name of a tool here; choose another name")
    return name


def parse_function(source: str, name: str = "", offered: Collection[str] = ()) -> ast.FunctionDef:
    """The one function in a normalised source.

    Args:
        source: a model's text.
        name: that the function must have; any where it is empty.
        offered: names of the session's tools that it may call.

    Raises:
        ToolFault: it is something else, or a function that depends on more than its arguments.
    """
    if len(source) > MAX_SOURCE:
        raise ToolFault(f"the source has {len(source)} characters; at most {MAX_SOURCE} are kept")
    _check_characters(source)
    function = _only_function(_parse(source), name)
    _check_signature(function)
    for node in ast.walk(function):
        _check_node(node, function.name)
    strange = sorted(free_names(source) - OPEN - {function.name, *offered} - _errors(offered))
    if strange:
        raise ToolFault(
            f"{function.name} uses {', '.join(strange)[:80]}, which a tool doesn't have: "
            "it sees its arguments, its own variables and plain built-ins"
        )
    return function


def function_name(source: str) -> str:
    """The name that a function's source gives it; empty where it is no function."""
    found = re.search(r"^def\s+(\w+)", source, re.M)
    return found.group(1) if found else ""


def summary(function: ast.FunctionDef) -> str:
    """The first line of the docstring, at most 200 characters."""
    lines = (ast.get_docstring(function) or "").splitlines()
    return lines[0][:200] if lines else ""


def shape(source: str) -> str:
    """Digest of the code without its name, comments, layout and docstring.

    Two sources of one shape do the same; a Python of another version may give another digest.
    """
    function = _parse(source).body[0]
    assert isinstance(function, ast.FunctionDef)
    name, function.name = function.name, "_"
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = "_"
    if ast.get_docstring(function, clean=False) is not None:
        function.body = function.body[1:]
    return digest_bytes(ast.dump(function).encode())


def _parse(source: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # A doubtful escape in a model's text is no message to our operator.
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        raise ToolFault(f"the source is not Python: {error.msg} (line {error.lineno})") from error
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise ToolFault(f"the source cannot be read: {type(error).__name__}") from error


def _check_characters(source: str) -> None:
    """Whoever reads the source must see what Python sees: no hidden or reordering characters."""
    odd = [c for c in source if unicodedata.category(c)[0] == "C" and c not in "\n\t"]
    if odd:
        raise ToolFault(f"the source has the character U+{ord(odd[0]):04X}, which can't be seen")


def _only_function(tree: ast.Module, name: str) -> ast.FunctionDef:
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef):
        raise ToolFault("the source must be one function and nothing else: def NAME(...): ...")
    function = tree.body[0]
    if name and function.name != name:
        raise ToolFault(f"the function is named {function.name!r:.60}, the tool {name!r}")
    if function.decorator_list:
        raise ToolFault("a tool's function has no decorators")
    return function


def _check_signature(function: ast.FunctionDef) -> None:
    found = function.args
    if found.vararg or found.kwarg or found.posonlyargs:
        raise ToolFault("a tool is called with named arguments: no *args, **kwargs or /")
    for default in filter(None, (*found.defaults, *found.kw_defaults)):
        if not _is_plain(default):
            # A list or dict would be one for all calls: a memory from call to call.
            raise ToolFault("a default must be a text, a number, a bool or None")


def _is_plain(node: ast.expr) -> bool:
    try:
        return isinstance(ast.literal_eval(node), str | int | float | None)
    except (ValueError, TypeError, SyntaxError):
        return False


def _check_node(node: ast.AST, name: str) -> None:
    if isinstance(node, ast.Import | ast.ImportFrom):
        _check_import(node)
    elif isinstance(node, ast.Global):
        raise ToolFault(f"{name} must not set globals: return what it finds out")
    elif isinstance(node, ast.Attribute):
        if _FRAMES.match(node.attr):
            raise ToolFault(f"{name} must not use the attribute {node.attr!r:.60}")
        if not isinstance(node.ctx, ast.Load):
            raise ToolFault(f"{name} must not set the attribute {node.attr!r:.60}")
    elif isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.AsyncFunctionDef):
        raise ToolFault(f"{name} must not be asynchronous")


def _check_import(node: ast.Import | ast.ImportFrom) -> None:
    if isinstance(node, ast.ImportFrom):
        names, plain = [node.module or "."], node.level == 0
    else:
        names, plain = [alias.name for alias in node.names], True
    odd = [name for name in names if not plain or name.split(".")[0] not in MODULES]
    hidden = [alias.name for alias in node.names if alias.name.startswith(("_", "*"))]
    if odd or hidden:
        raise ToolFault(
            f"a tool can't import {(odd or hidden)[0]!r:.60}; there are {', '.join(MODULES)}"
        )


def _errors(offered: Collection[str]) -> set[str]:
    """What a function may catch whose calls can be refused."""
    return {"ToolError"} if offered else set()


def free_names(source: str) -> set[str]:
    """Names that a source takes from outside of it, whatever the depth they are used at.

    Raises:
        ToolFault: the source cannot be read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            top = symtable.symtable(source, "tool", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ToolFault(f"the source cannot be read: {error!s:.80}") from error
    return {
        symbol.get_name()
        for table in _inner(top)
        for symbol in table.get_symbols()
        if symbol.is_global() and symbol.is_referenced()
    }


def _inner(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner(child)
