"""What stands between a build and its compilers: a package of the standard library only, copied into every build.

``nvcc`` in the CUDA_HOME of a build, the programs that nvcc runs (``cudafe++``, ``cicc``, ``ptxas``), the host compiler
and the build tools (``ninja``, ``make``) are fronts: each runs :mod:`orbit.kernels.shim.program`, which does what has
to be done and then runs the real program.

It starts for every compiler call, so it must start in milliseconds: modules import little and late, annotations stay
text. :mod:`.config` holds the settings of one build, the only thing that orbit hands over.
"""
