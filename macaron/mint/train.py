"""The training process, one a rank: `python -m macaron.mint.train JOB`, under DeepSpeed's launcher.

What a job has finished is skipped, what it has not goes on from its checkpoint, and either way
the same bits come out. A fault is one event and an exit code; the champion is never touched.
"""

import os
import sys
import traceback
from pathlib import Path

from macaron.errors import MacaronError, TrainingError
from macaron.mint.events import Events
from macaron.mint.job import load_job
from macaron.mint.leash import follow_leader
from macaron.mint.runtime import import_deepspeed


def run(job_path: Path, events: Events) -> None:
    """Trains every specialist of the job."""
    job = load_job(job_path)
    names = [s.specialist for s in job.specialists]
    events.emit("start", base=job.base, processes=job.processes, specialists=names)
    import_deepspeed()
    from macaron.learner.deepspeed import DeepSpeedBackend
    from macaron.mint.trainer import Trainer

    trainer = Trainer.start(job, events, DeepSpeedBackend())
    revisions = {s.specialist: trainer.train(s) for s in job.specialists}
    events.emit("done", revisions=revisions)


def main() -> int:
    """The exit code: 0, or that of the fault."""
    follow_leader()
    events = Events.on_stdout(rank=int(os.environ.get("RANK", "0")))
    try:
        run(Path(sys.argv[1]), events)
    except MacaronError as error:
        # The event has the one line; where it came from goes to the log.
        traceback.print_exc()
        events.error(error)
        return error.exit_code
    except Exception as error:
        # A bug of ours: it keeps its traceback, and whoever launched this hears of it at once.
        traceback.print_exc()
        said = next(iter(str(error).splitlines()), "")
        events.error(TrainingError(f"{type(error).__name__}: {said}", mend="report it"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
