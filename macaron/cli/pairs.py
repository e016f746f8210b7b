"""`macaron pairs`: the pairs on this disk, what they are made of, and how two of them differ."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from macaron.contract.verdict import Verdict
    from macaron.pair import Pair
    from macaron.pool.packed import Packed
    from macaron.registry.champions import Version

app = typer.Typer(help="Look at the pairs: list, show, diff.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="PAIR",
        help="Id, the beginning of one, or champion, previous or challenger.",
        show_default=False,
    ),
]


@app.command("list")
def list_pairs(json: Json = False) -> None:
    """List all pairs, the ancestor first."""
    from macaron.cli.output import print_json, print_table
    from macaron.cli.project import versions
    from macaron.mindforge.stores import pair_store
    from macaron.settings import load_settings

    settings = load_settings()
    store = pair_store(settings)
    registered = {version.pair_id: version for version in versions(settings)}
    rows = [
        _summary(pair, registered.get(pair.id), store.verdict(pair.id)) for pair in store.list()
    ]
    if json:
        print_json(rows)
    elif not rows:
        print("no pairs yet: `macaron improve` makes the first")
    else:
        columns = ("pair", "generation", "parent", "verdict", "version", "aliases")
        print_table(columns, [[_cell(row[name]) for name in columns] for row in rows])


@app.command()
def show(pair: Name, json: Json = False) -> None:
    """Show one pair: its parts, its verdict and where its records are.

    Every part is checked against the digest in the pair's manifest.
    """
    from macaron.cli.output import print_facts, print_json
    from macaron.cli.project import resolve, versions
    from macaron.mindforge.stores import pair_store
    from macaron.settings import load_settings

    settings = load_settings()
    store, found = pair_store(settings), versions(settings)
    manifest = store.get(resolve(pair, store, found))
    version = next((v for v in found if v.pair_id == manifest.id), None)
    verdict, pool = store.verdict(manifest.id), store.pool(manifest.id)
    if json:
        tags = dict(version.tags) if version else {}
        full: dict[str, Any] = {"manifest": manifest.to_json(), "tags": tags}
        judged = {"judged": verdict.to_json() if verdict else None}
        full["pool"] = pool.index() if pool else None
        print_json(_summary(manifest, version, verdict) | full | judged)
        return
    print_facts(_facts(manifest, version, store.folder(manifest.id)))
    if pool:
        _print_pool(pool)
    if verdict:
        _print_verdict(verdict)


@app.command()
def restore(pair: Name) -> None:
    """Put a pair's folder back as it was registered.

    For a folder that is lost or damaged; every part of the copy in MLflow is checked first.
    """
    import tempfile

    from macaron.cli.project import registered, versions
    from macaron.mindforge.stores import pair_store, tracking
    from macaron.settings import load_settings

    settings = load_settings()
    version = registered(pair, versions(settings))
    with tempfile.TemporaryDirectory() as folder:
        source = tracking(settings, settings.model_name).fetch(version, Path(folder))
        restored = pair_store(settings).restore(source)
    print(f"pair {restored.id} is whole: {settings.pairs / restored.id}")


@app.command()
def diff(old: Name, new: Name, json: Json = False) -> None:
    """Show in which parts two pairs differ, the harness field by field."""
    from dataclasses import asdict

    from macaron.cli.output import print_json, print_table
    from macaron.cli.project import resolve, versions
    from macaron.mindforge.stores import pair_store
    from macaron.settings import load_settings

    settings = load_settings()
    store, found = pair_store(settings), versions(settings)
    differences = store.diff(resolve(old, store, found), resolve(new, store, found))
    if json:
        print_json([asdict(difference) for difference in differences])
    elif not differences:
        print("the same pair")
    else:
        rows = [[d.part, _short(d.old), _short(d.new)] for d in differences]
        print_table(("part", "old", "new"), rows)


def _summary(pair: "Pair", version: "Version | None", verdict: "Verdict | None") -> dict[str, Any]:
    return {
        "pair": pair.id,
        "generation": pair.generation,
        "parent": pair.parent,
        "verdict": verdict.decision if verdict else None,
        "version": version.version if version else None,
        "aliases": list(version.aliases) if version else [],
    }


def _facts(pair: "Pair", version: "Version | None", folder: object) -> Sequence[tuple[str, str]]:
    facts = [
        ("pair", pair.id),
        ("generation", str(pair.generation)),
        ("parent", pair.parent or "none: an ancestor"),
        ("base", pair.base[:12]),
        *((f"adapter {key}", revision[:12]) for key, revision in sorted(pair.adapters.items())),
        ("harness", pair.hcp[:12]),
        *((("tools", pair.pool[:12]),) if pair.pool else ()),
        ("folder", str(folder)),
    ]
    if version:
        aliases = f" ({', '.join(version.aliases)})" if version.aliases else ""
        facts += [("version", f"{version.version}{aliases}"), ("MLflow run", version.run_id)]
        facts += [(key, version.tags[key]) for key in sorted(_TAGS & version.tags.keys())]
    return facts


_TAGS = {"dvc_md5", "git_tag", "rolled_back", "rolled_back_to"}


def _print_pool(pool: "Packed") -> None:
    from macaron.cli.output import print_table

    print()
    rows = [(name, tool.digest[:12], "callable") for name, tool in pool.tools.items()]
    rows += [
        (tool.name, digest[:12], f"demoted: {pool.reasons[digest]}")
        for digest, tool in pool.demoted.items()
    ]
    print_table(("tool", "digest", "state"), rows)


def _print_verdict(verdict: "Verdict") -> None:
    from macaron.cli.output import print_table
    from macaron.mindforge.report import HEAD, rows

    print(f"\n{verdict.decision} under contract {verdict.contract}")
    for reason in verdict.reasons:
        print(f"  {reason}")
    print_table(HEAD, rows(verdict.to_json()))


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _short(value: Any) -> str:
    """A digest by its first characters."""
    if isinstance(value, str) and len(value) == 64:
        return value[:12]
    return _cell(value)
