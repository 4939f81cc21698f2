"""Tests of the registry client."""
