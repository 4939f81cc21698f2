"""Failures that people reported, written by code with their siblings, judged by the whole audit as a user calls it."""
