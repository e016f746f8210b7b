"""Any history of the timeline on SQLite."""

import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

from tests.serve.timeline_machine import TimelineMachine


class SqliteMachine(TimelineMachine):
    """Each run has a file of its own."""

    def new_url(self) -> str:
        self.folder = tempfile.TemporaryDirectory()
        return f"sqlite:///{Path(self.folder.name) / 'timeline.db'}"

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestTimelineOnSqlite = SqliteMachine.TestCase
TestTimelineOnSqlite.settings = settings(
    max_examples=60 if os.environ.get("MACARON_FULL") else 8,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
