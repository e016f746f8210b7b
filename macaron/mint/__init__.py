"""Adapter revisions and the training service that makes them."""
