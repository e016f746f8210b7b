"""The machine: tools, disk, memory, cores, and what torch computes with here."""

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from macaron.cli import machine
from macaron.cli.checks.check import Check, fail, guarded, ok, warn
from macaron.profile import load_profile
from macaron.settings import Settings, cores, find_root

MIN_MEMORY_GB = 4
"""A cycle on nano holds two training processes and Prefect's server, 10^9 bytes."""


def tools() -> Iterator[Check]:
    """Python, the compiler and git."""
    yield ok("python", f"{platform.python_version()}, {sys.executable}")
    lacking = list(machine.compiler())
    yield from (fail("compiler", *_halves(line)) for line in lacking)
    if not lacking:
        yield ok("compiler", _first_line([os.environ.get("CXX", "c++"), "--version"]))
    yield from guarded("git", lambda: _git(find_root()))


def resources(settings: Settings) -> Iterator[Check]:
    """What there is to compute and to store with."""
    yield _disk(settings)
    yield _memory()
    yield from guarded("torch", lambda: _torch(settings))


def _git(root: Path) -> Check:
    if lacking := list(machine.git(root)):
        return fail("git", *_halves(lacking[0]))
    name, mail = (_git_config(root, key) for key in ("user.name", "user.email"))
    version = _first_line(["git", "--version"]).removeprefix("git version ")
    if not (name and mail):
        return warn(
            "git",
            f"{version}; no identity, records are signed macaron",
            "git config --global user.name NAME; git config --global user.email MAIL",
        )
    return ok("git", f"{version}, {root}, {name} <{mail}>")


def _git_config(root: Path, key: str) -> str:
    command = ["git", "-C", str(root), "config", key]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


def _disk(settings: Settings) -> Check:
    folder = settings.state if settings.state.exists() else settings.root
    free = shutil.disk_usage(folder).free // 2**20
    needed = settings.budgets.min_free_disk
    fact = f"{free:,} MiB free in {folder}, {needed:,} MiB needed"
    return ok("disk", fact) if free >= needed else fail("disk", fact, "free some")


def _memory() -> Check:
    free = _available_memory() / 1e9
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    fact = f"{free:.1f} GB available of {total:.1f} GB"
    if free >= MIN_MEMORY_GB:
        return ok("memory", fact)
    return warn("memory", f"{fact}; a nano cycle wants {MIN_MEMORY_GB} GB", "end other programs")


def _available_memory() -> float:
    """Bytes that could be used without swapping."""
    info = Path("/proc/meminfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _torch(settings: Settings) -> Check:
    """What was asked and what runs; and whether a second thread helps at all here."""
    import torch

    profile = load_profile(settings.path(f"models/profiles/{settings.profile}.toml"))
    gpus = torch.cuda.device_count()
    device = f"{gpus} x {torch.cuda.get_device_name(0)}" if gpus else "CPU, no CUDA device"
    one, all_ = _speed(1), _speed(cores())
    fact = (
        f"{torch.__version__} on {device}, {profile.dtype} asked; {settings.workers} workers on"
        f" {cores()} cores, {one:.0f} GFLOP/s on one thread, {all_:.0f} on all"
    )
    if cores() > 1 and all_ < one:
        return warn("torch", f"{fact}: the cores are busy or shared", "OMP_NUM_THREADS=1")
    return ok("torch", fact)


def _speed(threads: int) -> float:
    """10^9 operations a second of a small fp32 product, the best of a few tries."""
    import torch

    before, size = torch.get_num_threads(), 512
    torch.set_num_threads(threads)
    try:
        left, right = torch.ones(size, size), torch.ones(size, size)
        best = float("inf")
        for _ in range(8):
            started = time.perf_counter()
            torch.mm(left, right)
            best = min(best, time.perf_counter() - started)
    finally:
        torch.set_num_threads(before)
    return 2 * size**3 / best / 1e9


def _halves(line: str) -> tuple[str, str]:
    """What is missing, and how to get it."""
    what, _, mend = line.partition(". ")
    return f"missing: {what}", mend


def _first_line(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
