"""Checks that run inside an image (or on a GPU machine with the files alone): ``python -m orbit.smoke LIST.toml``.

This is the staircase between the floors: the runner and its data need nothing but the standard library, and each check
imports the stack only inside its own process. What starts an image and reads the results is ``orbit.image.smoke.run``.
"""
