"""Macaron: a deployed agent goes on learning, one judged pair a night."""

__version__ = "0.1.0"
