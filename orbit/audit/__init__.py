"""Readers, facts, rules and findings about installed environments. Nothing inspected is ever executed or imported."""
