"""Random HCP documents, every field of the schema among them."""

from typing import Any

from hypothesis import strategies as st

from macaron.hcp.document import HCP

TEXT = st.text(max_size=12) | st.sampled_from(["a\nb", "\n", "\r\n", '"""', "'", "\\", "\x00\x7f"])
WORDS = st.text(min_size=1, max_size=8)
KEYS = st.text("abcL01_.-", min_size=1, max_size=5)
WHOLE = st.integers(1, 10**12)
SECONDS = st.floats(0.001, 1e9)
SCALARS = st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
REGEXES = st.sampled_from(["", "a+", r"\bdelete\b", "(?i)x|y", "[^\n]*$"])
MOMENTS = ("before_turn", "after_turn", "before_tool", "after_tool", "before_stop")


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A section with any of its fields that have defaults."""
    return st.fixed_dictionaries({}, optional=fields)


def names(there: list[str]) -> st.SearchStrategy[list[str]]:
    """Some of the names, each once, in any order."""
    return st.lists(st.sampled_from(there), unique=True, max_size=3) if there else st.just([])


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """JSON Schemas of an object."""
    types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object"])
    fields = st.fixed_dictionaries({"type": types}, optional={"description": TEXT, "x": VALUES})
    properties = draw(st.dictionaries(TEXT, fields, max_size=3))
    extra = draw(some(required=names(list(properties)), examples=st.lists(VALUES, max_size=2)))
    return {"type": "object", "properties": properties, **extra}


@st.composite
def tools(draw: st.DrawFn, servers: list[str]) -> dict[str, Any]:
    sources = ["environment", "pool", *(f"mcp:{server}" for server in servers)]
    found = draw(
        st.dictionaries(
            KEYS,
            st.fixed_dictionaries(
                {"description": TEXT, "parameters": schemas(), "source": st.sampled_from(sources)}
            ),
            max_size=3,
        )
    )
    if draw(st.booleans()):
        found["shell"] = {"description": "", "parameters": draw(schemas()), "source": "builtin"}
    return found


MCP = st.dictionaries(
    KEYS,
    some(timeout_s=SECONDS).flatmap(
        lambda given: st.one_of(
            st.fixed_dictionaries({"url": st.just("https://a.example/mcp")}),
            st.fixed_dictionaries(
                {"command": st.lists(WORDS, min_size=1, max_size=3)},
                optional={"env": st.lists(st.sampled_from(["A", "_B1"]), unique=True)},
            ),
        ).map(lambda way: {**way, **given})
    ),
    max_size=2,
)
SKILLS = st.dictionaries(
    KEYS,
    st.fixed_dictionaries({"description": TEXT, "text": WORDS}, optional={"trigger": REGEXES}),
    max_size=3,
)


@st.composite
def specialists(draw: st.DrawFn, tool: list[str], skill: list[str]) -> dict[str, Any]:
    labels = draw(st.lists(WORDS, min_size=1, max_size=4, unique=True))
    return {
        f"L{number}": {
            "name": label,
            "system": draw(TEXT),
            "max_tokens": draw(WHOLE),
            "temperature": draw(st.floats(0, 10)),
            **draw(
                some(
                    top_p=st.floats(0.01, 1),
                    stop=st.lists(WORDS, unique=True, max_size=2),
                    surface=st.sampled_from(["functions", "repl", "ui4a"]),
                    tools=names(tool),
                    skills=names(skill),
                    max_rounds=WHOLE,
                    result_chars=WHOLE,
                    tool_format=st.just("hermes"),
                )
            ),
        }
        for number, label in enumerate(labels)
    }


@st.composite
def hooks(draw: st.DrawFn, specialist: list[str], tool: list[str]) -> list[dict[str, Any]]:
    found = []
    for number in range(draw(st.integers(0, 4))):
        when = draw(st.sampled_from(MOMENTS))
        action = draw(st.sampled_from(["refuse", "replace", "note"]))
        action = draw(st.just("continue")) if when == "before_stop" and number % 2 else action
        found.append(
            {
                "name": f"hook-{number}",
                "when": when,
                "pattern": draw(REGEXES),
                "action": action,
                "text": draw(WORDS),
                **draw(some(specialists=names(specialist), safety=st.booleans())),
                **(draw(some(tools=names(tool))) if when.endswith("tool") else {}),
                **(draw(some(negate=st.booleans())) if action != "replace" else {}),
            }
        )
    return found


@st.composite
def values(draw: st.DrawFn) -> dict[str, Any]:
    """Raw values of a document of 1.1."""
    mcp, skill = draw(MCP), draw(SKILLS)
    tool = draw(tools(list(mcp)))
    specialist = draw(specialists(list(tool), list(skill)))
    default = draw(st.sampled_from(list(specialist)))
    sections = {
        "tools": st.just(tool),
        "skills": st.just(skill),
        "mcp": st.just(mcp),
        "hooks": hooks(list(specialist), list(tool)),
        "memory": some(summary_tokens=WHOLE, keep_turns=WHOLE),
        "session": some(max_turns=WHOLE, context_tokens=WHOLE, turn_s=SECONDS),
        "workspace": some(
            cpu_s=WHOLE, wall_s=SECONDS, memory_mib=WHOLE, processes=WHOLE, file_mib=WHOLE,
            open_files=WHOLE, network=st.booleans(),
            level=st.lists(st.sampled_from(["seccomp", "userns"]), unique=True),
        ),
        "pool": st.integers(1, 9).map(lambda n: {"trials": n, "passes": n}),
    }  # fmt: skip
    needed = {"tools", "skills", "mcp"}
    return {
        "version": "1.1",
        "router": {"system": draw(TEXT), "default": default, **draw(some(text_tokens=WHOLE))},
        "specialists": specialist,
        **draw(
            st.fixed_dictionaries(
                {name: sections[name] for name in needed},
                optional={name: s for name, s in sections.items() if name not in needed},
            )
        ),
    }


DOCUMENTS = values().map(HCP.model_validate)
