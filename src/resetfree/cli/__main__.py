"""`python -m resetfree.cli`."""

import sys

from resetfree.cli import main

if __name__ == "__main__":
    sys.exit(main())
