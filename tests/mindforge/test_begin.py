"""The beginning of a night: whose harness counts."""

from pathlib import Path

import pytest

from macaron.errors import ConfigError
from macaron.hcp.document import load_hcp
from macaron.hcp.edit import set_field
from macaron.mindforge.begin import begin
from macaron.mindforge.cycle import Options
from macaron.mindforge.stores import pair_store
from macaron.pair import HCP_FILE
from macaron.settings import load_settings
from tests.project import make_project

pytestmark = pytest.mark.full


def test_the_champions_own_harness_counts_once_there_is_one(tmp_path: Path) -> None:
    root = make_project(tmp_path / "house")
    settings = load_settings(root)
    shipped = root / settings.hcp
    first = begin(settings, Options(), "")
    own = pair_store(settings).folder(first.inputs.champion) / HCP_FILE

    # As it is after a promotion with a changed harness: the settings name another one.
    set_field(shipped, "specialists.L1.system", "another")
    night = begin(settings, Options(), "")
    assert night.inputs.champion == first.inputs.champion
    assert night.inputs.hcp_digest == first.inputs.hcp_digest == load_hcp(own).digest
    assert load_hcp(shipped).digest != first.inputs.hcp_digest
    shipped.unlink()
    asked = begin(settings, Options(hcp=str(own)), "")
    assert asked.inputs.hcp_digest == first.inputs.hcp_digest

    other = tmp_path / "other.toml"
    other.write_bytes(own.read_bytes())
    set_field(other, "specialists.L1.system", "another")
    with pytest.raises(ConfigError, match="leave --hcp out") as caught:
        begin(settings, Options(hcp=str(other)), "")
    assert str(other) in str(caught.value) and "\n" not in str(caught.value)
