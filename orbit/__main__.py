"""``python -m orbit``."""

import sys

from orbit.cli import main

sys.exit(main())
