"""Where a project's timeline is."""

from macaron.serving import ServeConfig
from macaron.settings import SQLITE, Settings


def timeline_url(settings: Settings, config: ServeConfig | None = None) -> str:
    """The database's URL: as it is set, or else SQLite in the state folder.

    Args:
        config: a server's own settings, where a command line has changed them.
    """
    configured = (config or settings.serve).timeline
    return configured or f"{SQLITE}{settings.state / 'serve' / 'timeline.db'}"
