"""Readers: bytes to facts. Each knows one language, none of them a rule."""
