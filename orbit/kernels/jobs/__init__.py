"""The job server: which compiler step of which package runs now, by cores and memory; estimates, progress, costs.

Belongs here: admission (:mod:`policy`, pure; :mod:`server`, the socket), what earlier runs measured
(:mod:`estimates`), what people see (:mod:`progress`, :mod:`costs`), several packages at once (:mod:`schedule`).
Does not belong here: what a step is, or how it is compiled. May import ``orbit.core`` and ``orbit.errors`` only.
"""
