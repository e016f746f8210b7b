"""What holds for every HCP document: round trips, digests that mean the values, and changes."""

import os
import random
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from macaron.errors import ConfigError
from macaron.files import canonical_json
from macaron.hcp.changes import apply, diff, invert
from macaron.hcp.document import HCP, parse_hcp
from macaron.hcp.paths import get, look_up, values_of
from macaron.hcp.text import dump_hcp, spelled
from macaron.profile import dotted
from tests.hcp.strategies import DOCUMENTS, values

pytestmark = pytest.mark.filterwarnings("error")
thorough = settings(
    # Documents are large, and the machine may be busy.
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=300 if os.environ.get("MACARON_FULL") else 20,
)


def shuffled(value: Any, rng: random.Random) -> Any:
    """The same values with the keys of every table in another order."""
    if isinstance(value, dict):
        keys = rng.sample(list(value), len(value))
        return {key: shuffled(value[key], rng) for key in keys}
    return [shuffled(part, rng) for part in value] if isinstance(value, list) else value


@thorough
@given(DOCUMENTS)
def test_what_is_written_is_read_again(hcp: HCP) -> None:
    for defaults in (False, True):
        loaded = parse_hcp(dump_hcp(hcp, defaults), "f")
        assert loaded.hcp == hcp and loaded.migrations == ()
        assert dump_hcp(loaded.hcp, defaults) == dump_hcp(hcp, defaults)


@thorough
@given(values(), st.randoms(use_true_random=False))
def test_order_comments_whitespace_and_defaults_change_no_digest(
    raw: dict[str, Any], rng: random.Random
) -> None:
    hcp = HCP.model_validate(raw)
    other = shuffled(values_of(hcp), rng)
    text = "# a comment\n\n\n" + tomlkit.dumps(spelled(other)) + "\n  # another\n\n"
    assert HCP.model_validate(shuffled(raw, rng)).digest == hcp.digest
    assert parse_hcp(text, "f").hcp.digest == hcp.digest
    assert dump_hcp(parse_hcp(text, "f").hcp) == dump_hcp(hcp), "equal documents, equal text"


@thorough
@given(DOCUMENTS, DOCUMENTS)
def test_changes_lead_there_and_back(old: HCP, new: HCP) -> None:
    changes = diff(old, new)
    assert apply(old, changes).digest == new.digest
    assert apply(new, invert(changes)).digest == old.digest
    assert invert(invert(changes)) == changes
    assert diff(old, old) == []


@thorough
@given(DOCUMENTS, DOCUMENTS)
def test_equal_digests_mean_no_change_and_others_some(old: HCP, new: HCP) -> None:
    assert (old.digest == new.digest) == (not diff(old, new))


@thorough
@given(DOCUMENTS, DOCUMENTS)
def test_a_change_of_something_else_is_refused(old: HCP, new: HCP) -> None:
    changes = diff(old, new)
    for change in changes:
        with pytest.raises(ConfigError, match=r"take the difference anew|no such field|at the end"):
            apply(new, [change])


@thorough
@given(DOCUMENTS)
def test_every_field_is_found_by_its_path(hcp: HCP) -> None:
    found = values_of(hcp)
    for path in paths(found):
        assert canonical_json(get(hcp, dotted(path))) == canonical_json(look_up(found, path))


def paths(value: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all fields, sections and items."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    below = [path for key, part in inner for path in paths(part, (*above, key))]
    return [above, *below] if above else below
