"""Smoke checks of a finished image: which engine runs them, what each said, and whether the image passed."""
