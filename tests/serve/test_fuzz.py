"""The OpenAPI document, fuzzed: no 5xx, and no answer that the document does not have."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from macaron.serve.http.app import create_app
from macaron.serve.http.keys import KeyFile
from macaron.serve.http.metrics import Metrics
from macaron.serving import ServeConfig
from tests.serve.conftest import Running, serving
from tests.serve.scripted import ScriptedService

RULES = ("/v1/chat/completions", "/v1/responses")
"""Where what a request says has to fit together, which a schema cannot say."""
Fuzzed = tuple[Running, str]


def document() -> schemathesis.BaseSchema:
    nowhere = KeyFile(Path(tempfile.gettempdir()) / "macaron-no-keys.json")
    app = create_app(ScriptedService(), ServeConfig(), nowhere, Metrics())
    return schemathesis.openapi.from_dict(app.openapi())


schema = document()


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """A server that is generous, and a key that may do everything."""
    keys = tmp_path_factory.mktemp("fuzz") / "keys.json"
    plenty = {"requests_per_minute": 10**9, "tokens_per_minute": 10**9}
    with serving(keys, limits=plenty) as running:
        yield running, running.keys.add("fuzz", ["chat", "feedback", "admin"])
        assert running.service.requests, "some requests were carried out"


def check(case: schemathesis.Case, fuzzed: Fuzzed) -> None:
    server, key = fuzzed
    case.call_and_validate(
        base_url=server.url,
        headers={"Authorization": f"Bearer {key}"},
        excluded_checks=[positive_data_acceptance] if case.operation.path in RULES else [],
    )


@schema.parametrize()
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@pytest.mark.full
def test_no_answer_is_a_fault_of_ours(case: schemathesis.Case, fuzzed: Fuzzed) -> None:
    check(case, fuzzed)


@schema.parametrize()
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.slow
def test_no_answer_is_a_fault_of_ours_for_minutes(case: schemathesis.Case, fuzzed: Fuzzed) -> None:
    check(case, fuzzed)
