"""What Prometheus reads; every number is the server's own, none names a session or a user."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from macaron.engines.stream import EngineStats
from macaron.experience.schema import Feedback
from macaron.serve.counts import Counts
from macaron.serve.http.notes import Notes
from macaron.serve.http.usage import tokens
from macaron.serve.records import TurnRecord

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
"""Of seconds."""
PHASES = ("route", "summary_wait", "answer", "turn")
"""Of a turn's `timings_ms`."""


class Metrics:
    """The server's counters, and a look at the engine and the pair whenever they are read.

    Args:
        engine: the engine's counts; None where there is no engine to ask.
        health: as `Service.health`.
        counts: the service's own; None where it counts nothing.
    """

    def __init__(
        self,
        engine: Callable[[], EngineStats] | None = None,
        health: Callable[[], Mapping[str, Any]] | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "HTTP requests.", "route", "status")
        self._turns = self._counter("turns", "Answers that went out.", "specialist", "why", "stop")
        self._faults = self._counter("router_faults", "Turns that fell back on the default.")
        self._deliveries = self._counter("deliveries", "Requests whose turn was delivered.")
        self._withdrawals = self._counter("withdrawals", "Turns withdrawn.", "reason")
        self._tokens = self._counter("tokens", "Tokens of delivered turns.", "kind")
        self._feedback = self._counter("feedback", "Feedback taken in.", "kind")
        self._phases = self._seconds("phase_seconds", "Parts of a turn.", "phase")
        self._first = self._seconds("first_token_seconds", "From request to first piece.")
        self.registry.register(_Now(engine, health, counts))

    def _counter(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(f"macaron_{name}", what, labels, registry=self.registry)

    def _seconds(self, name: str, what: str, *labels: str) -> Histogram:
        return Histogram(f"macaron_{name}", what, labels, buckets=BUCKETS, registry=self.registry)

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self.registry)

    def requested(self, notes: Notes) -> None:
        """A request has ended."""
        self._requests.labels(notes.route, str(notes.status)).inc()

    def delivered(self, notes: Notes, records: Sequence[TurnRecord]) -> None:
        """A turn went out."""
        self._deliveries.inc()
        for record in records:
            self._turns.labels(notes.specialist, notes.why, record.stop_reason).inc()
        if notes.why == "default":
            self._faults.inc()
        self._spent(records)
        if notes.first_ms is not None:
            self._first.observe(notes.first_ms / 1000)
        for phase in PHASES:
            if (ms := records[0].timings_ms.get(phase)) is not None:
                self._phases.labels(phase).observe(ms / 1000)

    def _spent(self, records: Sequence[TurnRecord]) -> None:
        used = tokens(records)
        self._tokens.labels("prompt").inc(used.prompt)
        self._tokens.labels("cached").inc(used.cached)
        self._tokens.labels("sampled").inc(used.completion)
        self._tokens.labels("route").inc(used.route)

    def withdrawn(self, notes: Notes) -> None:
        """A turn did not go out."""
        self._withdrawals.labels(notes.end).inc()

    def said(self, feedback: Feedback) -> None:
        """Feedback was kept."""
        for kind in ("rating", "correction", "outcome"):
            if getattr(feedback, kind) is not None:
                self._feedback.labels(kind).inc()


class _Now(Collector):
    """What is true at the moment of reading."""

    def __init__(
        self,
        engine: Callable[[], EngineStats] | None,
        health: Callable[[], Mapping[str, Any]] | None,
        counts: Counts | None,
    ) -> None:
        self._engine, self._health, self._counts = engine, health, counts

    def collect(self) -> Iterator[Metric]:
        """The engine's counts, how often its prefix cache hits, and the pair."""
        if self._engine:
            yield from _engine(self._engine())
        if self._health:
            yield _pair(self._health())
        for name, value in vars(self._counts).items() if self._counts else ():
            yield GaugeMetricFamily(f"macaron_service_{name}", "See serve/counts.py.", value)


def _engine(stats: EngineStats) -> Iterator[Metric]:
    for name, value in vars(stats).items():
        yield GaugeMetricFamily(f"macaron_engine_{name}", "See EngineStats.", value=value)
    share = stats.cached_tokens / stats.prompt_tokens if stats.prompt_tokens else 0.0
    what = "Share of prompt tokens that the prefix cache held."
    yield GaugeMetricFamily("macaron_engine_cache_hit_ratio", what, value=share)


def _pair(health: Mapping[str, Any]) -> Metric:
    names = ("pair", "hcp", "generation")
    family = GaugeMetricFamily("macaron_pair_info", "What new sessions get.", labels=names)
    family.add_metric([str(health.get(name, "")) for name in names], 1)
    return family
