"""Moments as text: ISO 8601 in UTC, one spelling per moment."""

from datetime import UTC, datetime


def now() -> str:
    """This moment."""
    return datetime.now(UTC).isoformat()


def parse_time(text: str) -> datetime:
    """The moment, in UTC.

    Raises:
        ValueError: not ISO 8601, or without a time zone.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.astimezone(UTC)
