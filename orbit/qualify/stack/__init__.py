"""What runs where the stack is installed: the frozen batch through torch and through the kernels an image ships.

Started as a fresh process for every repeat (:mod:`orbit.qualify.stack.child`); nothing above imports it.
"""
