"""Wheels as values: unpack, change, prove, pack, compare and describe. Format: PEP 427, 425, 600."""
