"""What asks GPUs through torch: memory, matmul, peers, IPC, all-reduce, a load of a minute.

Programs of their own (:func:`orbit.core.proc.own_python`), with torch and the standard library alone; nothing above
imports them. ``cpu`` does the same with processors and gloo, for tests.
"""
