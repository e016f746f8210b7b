"""`macaron status`: who is champion, what the last cycle did, what waits, what to do next."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from macaron.registry.champions import Version
    from macaron.settings import Settings

SHOWN = ("id", "state", "started", "ended", "champion", "challenger", "error", "report")


def status(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Show the champion, the last cycle, the experience that waits, and what to do next."""
    from macaron.cli.output import print_facts, print_json
    from macaron.settings import load_settings

    found = gather(load_settings())
    if json:
        print_json(found)
    else:
        print_facts(_facts(found))


def gather(settings: "Settings") -> dict[str, Any]:
    """What there is to know, as JSON values; nothing is made or changed."""
    from macaron.cli.project import running, versions
    from macaron.mindforge.cycle import cycles

    records = cycles(settings)
    last = {key: records[-1][key] for key in SHOWN} if records else None
    process = running(settings)
    if last and last["state"] == "running" and process is None:
        # Nobody holds the lock: it was killed before it could say so.
        last["state"] = "stopped"
    champion = _champion(versions(settings), records)
    found: dict[str, Any] = {
        "root": str(settings.root),
        "profile": settings.profile,
        "champion": champion,
        "cycles": len(records),
        "last_cycle": last,
        "running": process,
        "experience": _experience(settings, champion["pair"] if champion else ""),
        "mlflow": settings.mlflow_uri,
    }
    return found | {"next": _next(found)}


def _champion(
    found: "Sequence[Version]", records: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    from macaron.cli.project import holder

    version = holder(found, "champion")
    if version is None:
        return None
    return {
        "pair": version.pair_id,
        "version": version.version,
        "generation": int(version.tags.get("generation", 0)),
        "since": _since(version.pair_id, found, records),
        "git_tag": version.tags.get("git_tag", ""),
    }


def _since(pair: str, found: "Sequence[Version]", records: Sequence[dict[str, Any]]) -> str:
    """UTC; when a cycle promoted the pair or a rollback went back to it. Empty: the ancestor."""
    moments = [
        record["ended"]
        for record in records
        if record["state"] == "promoted" and record["challenger"] == pair
    ]
    moments += [
        version.tags["rolled_back"].split()[0].replace("Z", "+00:00")
        for version in found
        if version.tags.get("rolled_back_to") == pair
    ]
    return max(moments, default="")


def _experience(settings: "Settings", champion: str) -> dict[str, int]:
    from macaron.experience.store import ExperienceStore
    from macaron.mindforge.collect import waiting

    store = ExperienceStore(settings.experience)
    inbox = settings.path(settings.stores.inbox)
    log = settings.state / "turns"
    return {
        "waiting": waiting(settings, store, champion).num_rows,
        "inbox": len(list(inbox.glob("*.jsonl"))),
        "log_bytes": sum(path.stat().st_size for path in log.glob("*.log")),
    }


def _next(found: dict[str, Any]) -> list[str]:
    last = found["last_cycle"]
    if found["running"]:
        return [f"wait: process {found['running']} runs cycle {last['id'] if last else ''}".strip()]
    if last is None:
        return ["macaron improve   (the first cycle)"]
    steps = {
        "promoted": "macaron improve   (the next generation)",
        "rejected": "macaron improve   (another attempt, with fresh seeds)",
        "failed": "macaron improve   (goes on where it failed, once that is mended)",
        "stopped": "macaron improve   (goes on where it was stopped)",
    }
    return [steps[last["state"]], "make ui   (every cycle and version in MLflow)"]


def _facts(found: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("project", f"{found['root']} (profile {found['profile']})")]
    champion, last = found["champion"], found["last_cycle"]
    if champion:
        since = f", since {champion['since']}" if champion["since"] else ""
        generation = f"generation {champion['generation']}, version {champion['version']}"
        facts.append(("champion", f"{champion['pair']}, {generation}{since}"))
    else:
        facts.append(("champion", "none yet"))
    if last:
        facts += _cycle_facts(last, found["cycles"])
    else:
        facts.append(("last cycle", "none yet"))
    facts.append(("experience", _waiting_text(found["experience"])))
    return facts + [("next" if step is found["next"][0] else "", step) for step in found["next"]]


def _cycle_facts(last: dict[str, Any], count: int) -> list[tuple[str, str]]:
    when = f"{last['started']} to {last['ended']}" if last["ended"] else f"since {last['started']}"
    facts = [("last cycle", f"{last['id']}, {last['state']}, {when}; {count} so far")]
    if last["challenger"]:
        facts.append(("challenger", last["challenger"]))
    if last["error"]:
        facts.append(("error", last["error"].splitlines()[0]))
    if last["report"]:
        facts.append(("report", last["report"]))
    return facts


def _waiting_text(experience: dict[str, int]) -> str:
    from macaron.cli.output import amount

    text = f"{amount(experience['waiting'], 'turn')} to learn from"
    if experience["inbox"]:
        text += f", {amount(experience['inbox'], 'file')} in the inbox"
    if experience["log_bytes"]:
        text += f", {experience['log_bytes'] / 1e3:.0f} kB of served turns logged"
    return text
