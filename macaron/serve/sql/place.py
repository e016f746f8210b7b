"""Where a project's timeline is."""

from macaron.settings import SQLITE, Settings


def timeline_url(settings: Settings) -> str:
    """The database's URL: as it is set, or else SQLite in the state folder."""
    serve = getattr(settings, "serve", None)
    configured: str = getattr(serve, "timeline", "")
    return configured or f"{SQLITE}{settings.state / 'serve' / 'timeline.db'}"
