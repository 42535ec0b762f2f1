"""`python -m limberjack` is the command line."""

from __future__ import annotations

import sys

from limberjack.cli.commands import main

if __name__ == "__main__":
    sys.exit(main())
