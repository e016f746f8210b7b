"""What Prometheus reads after some traffic."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from macaron.engines.stream import EngineStats
from macaron.serve.counts import Counts
from macaron.serve.http.metrics import Metrics
from tests.serve import raw
from tests.serve.conftest import Running


def samples(text: str) -> dict[tuple[str, ...], float]:
    """By name and the values of its labels, which come in the order of their names."""
    families = text_string_to_metric_families(text)
    return {(s.name, *map(str, s.labels.values())): s.value for f in families for s in f.samples}


def test_turns_are_counted(server: Running) -> None:
    client = server.client()
    for text in ("say:a", "say:a", "say:b;stop:length"):
        client.responses.create(model="macaron", input=text)
    client.chat.completions.create(
        model="macaron", messages=[{"role": "user", "content": "say:x"}], n=2
    )
    left = raw.connect(server.port)
    left.sendall(raw.chat("say:one;sleep:60", True))
    raw.until(left, b'"one"')
    left.close()
    httpx.post(f"{server.url}/v1/responses", json={"model": "macaron", "input": "fail:context"})
    httpx.get(f"{server.url}/v1/responses/resp_42")
    httpx.get(f"{server.url}/no/such/path")
    server.until(lambda: len(server.service.ends()) == 6)
    seen = samples(httpx.get(f"{server.url}/metrics").text)
    assert seen["macaron_requests_total", "/v1/responses", "200"] == 3
    assert seen["macaron_requests_total", "/v1/responses", "400"] == 1
    assert seen["macaron_requests_total", "/v1/responses/{id}", "404"] == 1
    assert seen["macaron_requests_total", "other", "404"] == 1
    assert seen["macaron_turns_total", "coding", "answer", "routed"] == 4
    assert seen["macaron_turns_total", "coding", "length", "routed"] == 1
    assert seen["macaron_deliveries_total",] == 4
    assert seen["macaron_withdrawals_total", "gone"] == 1
    assert seen["macaron_withdrawals_total", "context_length_exceeded"] == 1
    assert seen["macaron_tokens_total", "sampled"] == 25
    assert seen["macaron_tokens_total", "prompt"] == 44
    assert seen["macaron_tokens_total", "cached"] == 16
    assert seen["macaron_phase_seconds_count", "answer"] == 4
    assert seen["macaron_first_token_seconds_count",] == 4
    assert seen["macaron_pair_info", "2", "e5f60718", "a1b2c3d4"] == 1


def test_the_engine_is_asked_at_the_moment() -> None:
    stats = EngineStats()
    metrics = Metrics(engine=lambda: stats)
    assert samples(metrics.text().decode())["macaron_engine_cache_hit_ratio",] == 0
    stats = EngineStats(prompt_tokens=10, cached_tokens=4, running=3)
    seen = samples(metrics.text().decode())
    assert seen["macaron_engine_cache_hit_ratio",] == pytest.approx(0.4)
    assert seen["macaron_engine_running",] == 3


def test_what_the_service_counts() -> None:
    counts = Counts(swaps=1)
    metrics = Metrics(counts=counts)
    counts.summaries += 2
    seen = samples(metrics.text().decode())
    assert seen["macaron_service_swaps",] == 1 and seen["macaron_service_summaries",] == 2


def test_health_says_what_is_served(server: Running) -> None:
    found = httpx.get(f"{server.url}/health")
    assert found.status_code == 200 and found.json()["pair"] == "a1b2c3d4"
    server.service.status = "starting"
    assert httpx.get(f"{server.url}/health").status_code == 503
