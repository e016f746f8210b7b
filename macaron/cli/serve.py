"""`macaron serve`: the champion behind an HTTP API, and the keys to it."""

from typing import Annotated

import typer

from macaron.cli.serve_keys import keys_app

app = typer.Typer(invoke_without_command=True)
app.add_typer(keys_app, name="keys")


@app.callback()
def serve(
    context: typer.Context,
    pair: Annotated[
        str,
        typer.Option(
            metavar="ID", help="`champion` follows promotions; an id stays with that one."
        ),
    ] = "champion",
    host: Annotated[str, typer.Option(help="Address to listen on. Default: the setting.")] = "",
    port: Annotated[
        int, typer.Option(min=-1, max=65535, help="Port; 0: a free one. Default: the setting.")
    ] = -1,
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="A vLLM or SGLang server that samples instead.")
    ] = "",
) -> None:
    """Serve a pair: OpenAI's chat completions and responses, and a page to try it.

    To a client it is one model; exactly one specialist answers each turn. Every
    delivered turn becomes experience for the next cycle. Ends with Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    from macaron.cli.environment import make_quiet
    from macaron.settings import load_settings

    settings = load_settings()
    make_quiet(settings.state)
    from macaron.serve.opening import Opening
    from macaron.serve.running import log_to, run

    chosen = {"host": host or None, "port": port if port >= 0 else None}
    config = settings.serve.model_copy(update={k: v for k, v in chosen.items() if v is not None})
    if upstream:
        ways = config.upstream.model_copy(update={"url": upstream})
        config = config.model_copy(update={"upstream": ways})
    log_to()
    run(Opening(settings, pair), config, lambda url: print(f"serving at {url}", flush=True))
