"""Tests of orbit.image.slim."""
