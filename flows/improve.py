"""The improvement cycle: `python -m flows.improve --parameters JSON`, or a Prefect deployment."""

import argparse
import json
import os
import sys

from prefect import flow

from macaron.errors import MacaronError, ServiceError
from macaron.mindforge.cycle import Options, exclusive
from macaron.settings import load_settings
from tasks.begin import begin
from tasks.collect import collect
from tasks.curate import curate
from tasks.evaluate import evaluate
from tasks.expand import expand
from tasks.failure import record_failure
from tasks.judge import judge
from tasks.promote import promote
from tasks.report import report
from tasks.train import train
from tasks.validate import validate
from tasks.version import version

EXIT = {"promoted": 0, "rejected": 3}
INTERRUPTED = 130
UNREACHABLE = ("Failed to reach API", "Timed out while attempting to connect")


@flow(name="improve", on_failure=[record_failure], on_crashed=[record_failure])
def improve(options: Options = Options()) -> dict[str, str]:  # noqa: B008
    """One cycle: the champion's experience in, a judged successor out."""
    with exclusive(load_settings()):
        cycle = begin(options)
        collected = collect(cycle)
        good = validate(cycle, collected)
        expanded = expand(cycle)
        job = curate(cycle, good, expanded)
        trained = train(cycle, job)
        evaluated = evaluate(cycle, trained)
        verdict = judge(cycle, trained, evaluated)
        record = version(cycle, good, trained, verdict)
        promoted = promote(cycle, verdict, record)
        return report(cycle, collected, good, job, trained, verdict, record, promoted)


def main() -> int:
    """Runs one cycle; 0 promoted, 3 rejected, others are errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parameters", default="{}", help="the options, as JSON")
    options = Options.model_validate(json.loads(parser.parse_args().parameters))
    try:
        return EXIT[_run(options)]
    except MacaronError as error:
        print(f"macaron: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        # The command line says so, where there is one.
        return INTERRUPTED


def _run(options: Options) -> str:
    """The cycle's decision."""
    try:
        return improve(options)["decision"]
    except RuntimeError as error:
        # Prefect has no class of its own for a server that does not answer.
        if not any(words in str(error) for words in UNREACHABLE):
            raise
        raise ServiceError(
            f"Prefect's server does not answer ({error})",
            where=os.environ.get("PREFECT_API_URL", "a temporary server of this machine"),
            mend="start that server, or unset PREFECT_API_URL; on a busy machine try again",
        ) from error


if __name__ == "__main__":
    sys.exit(main())
