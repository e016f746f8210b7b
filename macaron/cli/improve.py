"""`macaron improve`: one whole cycle, from experience to a promotion or an honest rejection."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from macaron.settings import Settings


def improve(
    profile: Annotated[
        str, typer.Option(metavar="NAME", help="File in models/profiles. Default: the setting.")
    ] = "",
    base: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Base model. Default: the profile's."),
    ] = None,
    contract: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Evaluation contract. Default: the setting."),
    ] = None,
    hcp: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Harness of the first pair. Default: the setting."),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Everything random comes from it. A whole number.")
    ] = 0,
    experience: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Chat JSONL to learn from as well; may be repeated."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin anew, even if an unfinished cycle could go on.")
    ] = False,
) -> None:
    """Run one improvement cycle.

    Collect, validate, train, evaluate, judge, version and promote. A cycle that was
    stopped goes on where it was. Exit code 0: promoted; 3: rejected, the champion stays.
    """
    from macaron.cli.environment import cycle_environment
    from macaron.cli.flow import run_flow
    from macaron.settings import load_settings

    settings = load_settings()
    _refuse_a_second(settings)
    chosen: dict[str, Any] = {
        "profile": profile,
        "base": _existing(base, folder=True),
        "contract": _existing(contract),
        "hcp": _existing(hcp),
        "seed": seed,
        "experience": [_existing(file) for file in experience or []],
        "fresh": fresh,
    }
    parameters = {key: value for key, value in chosen.items() if value}
    # Prefect makes its home in here, but not the folders above it.
    settings.state.mkdir(parents=True, exist_ok=True)
    code = run_flow(
        settings.root,
        "flows.improve",
        ["--parameters", json.dumps(parameters)],
        cycle_environment(settings.state),
    )
    raise typer.Exit(code)


def _refuse_a_second(settings: "Settings") -> None:
    """The cycle would find out by itself, but after Prefect's server has started."""
    from macaron.cli.project import running
    from macaron.mindforge.cycle import busy

    if process := running(settings):
        raise busy(settings, str(process))


def _existing(path: Path | None, folder: bool = False) -> str:
    """The absolute path, since the flow runs in the project's root."""
    from macaron.errors import ConfigError

    if path is None:
        return ""
    wanted = "folder" if folder else "file"
    if not (path.is_dir() if folder else path.is_file()):
        what = f"is no {wanted}" if path.exists() else f"no such {wanted}"
        raise ConfigError(what, where=str(path), mend="check the path")
    return str(path.resolve())
