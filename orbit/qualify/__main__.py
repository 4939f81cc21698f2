"""``python -m orbit.qualify``: record a qualification with this interpreter, in an image or in an environment.

The record goes to ``--out`` and a table to stderr. Exit status: 0 passed, 1 something failed, 2 bad usage, 3 nothing
failed but a required path is not proven.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from orbit.errors import ExitCode, OrbitError


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and record."""
    from orbit.qualify.here import STATUS, record_here
    from orbit.qualify.options import add_options
    from orbit.qualify.text import render_record

    parser = argparse.ArgumentParser(prog="python -m orbit.qualify", description=(__doc__ or "").split("\n\n")[0])
    add_options(parser)
    args = parser.parse_args(argv)
    try:
        record = record_here(args)
    except OrbitError as error:
        print(f"orbit.qualify: error: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        print(f"orbit.qualify: error: {error.filename or args.out}: {error.strerror}", file=sys.stderr)
        return ExitCode.REFUSED
    print(render_record(record), end="", file=sys.stderr)
    return STATUS[record.verdict]


if __name__ == "__main__":
    sys.exit(main())
