"""Helpers that a model wrote: saved as candidates, tried in private, called in later sessions."""
