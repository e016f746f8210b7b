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
from macaron.harness.sandbox.level import LEVELS, check_level

__all__ = [
    "LEVELS",
    "Job",
    "Limits",
    "Outcome",
    "Result",
    "Sandbox",
    "SandboxError",
    "check_level",
    "shared_sandbox",
]
