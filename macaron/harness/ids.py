"""Ids of tool calls: the same place, the same id, in training and in serving."""

import hashlib


def call_id(turn: int, round_: int, number: int) -> str:
    """Nine characters, which is what the strictest chat templates take."""
    return hashlib.sha256(f"{turn}.{round_}.{number}".encode()).hexdigest()[:9]
