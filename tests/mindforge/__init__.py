"""Tests of the loop's stages."""
