"""Tests of the formats an image goes out in."""
