"""Model-written code in processes of its own: jobs, and what isolates them and the namespaces."""

from macaron.harness.sandbox.jobs import (
    Job,
    Limits,
    Outcome,
    Result,
    Sandbox,
    SandboxError,
    shared_sandbox,
)
from macaron.harness.sandbox.level import (
    LEVELS,
    check_level,
    common_level,
    demand_level,
    level_line,
    sandbox_level,
)

__all__ = [
    "LEVELS",
    "Job",
    "Limits",
    "Outcome",
    "Result",
    "Sandbox",
    "SandboxError",
    "check_level",
    "common_level",
    "demand_level",
    "level_line",
    "sandbox_level",
    "shared_sandbox",
]
