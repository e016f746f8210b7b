"""Kills a process that offers turns, in the middle of it."""

import subprocess
import sys


def acknowledged_before_kill(url: str, least: int = 200) -> list[str]:
    """The ids that the killed process was told were written."""
    command = [sys.executable, "-m", "tests.serve.offering_process", url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = []
    while len(told) < least:
        line = process.stdout.readline()
        assert line, "the process ended by itself"
        told.append(line.strip())
    process.kill()
    told += [line.strip() for line in process.stdout if line.endswith("\n")]
    process.wait()
    return told
