"""Tests of whole cycles."""
