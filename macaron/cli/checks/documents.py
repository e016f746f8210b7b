"""The documents that a cycle is made from: profile, base, contract, harness."""

from collections.abc import Iterator
from pathlib import Path

from macaron.cli.checks.check import Check, guarded, ok
from macaron.contract.document import load_contract
from macaron.hcp.document import load_hcp
from macaron.pair import base_digest
from macaron.profile import load_profile
from macaron.settings import FILE, Settings


def checks(settings: Settings) -> Iterator[Check]:
    """Each document, loaded as a cycle loads it."""
    yield ok("settings", f"{settings.root / FILE}, registered model {settings.model_name}")
    yield from guarded("profile", lambda: _profile(settings))
    yield from guarded("base", lambda: _base(settings))
    yield from guarded("contract", lambda: _contract(settings))
    yield from guarded("harness", lambda: _harness(settings))


def _profile_path(settings: Settings) -> Path:
    return settings.path(f"models/profiles/{settings.profile}.toml")


def _profile(settings: Settings) -> Check:
    profile = load_profile(_profile_path(settings))
    grpo = profile.grpo
    steps = f"{grpo.steps} steps of {grpo.prompts} x {grpo.group}"
    return ok("profile", f"{profile.name}: LoRA rank {profile.lora.rank}, {steps}")


def _base(settings: Settings) -> Check:
    from macaron.mindforge.cycle import check_base

    base = check_base(settings.path(load_profile(_profile_path(settings)).base))
    size = sum(path.stat().st_size for path in base.glob("*.safetensors"))
    return ok("base", f"{base}, {size / 1e6:,.1f} MB, digest {base_digest(base)[:12]}")


def _contract(settings: Settings) -> Check:
    contract = load_contract(settings.path(settings.contract))
    suites = ", ".join(suite.name for suite in contract.suites)
    return ok("contract", f"{contract.name}: {suites}; digest {contract.digest[:12]}")


def _harness(settings: Settings) -> Check:
    hcp = load_hcp(settings.path(settings.hcp))
    return ok("harness", f"{settings.hcp}, {len(hcp.specialists)} specialists, {hcp.digest[:12]}")
