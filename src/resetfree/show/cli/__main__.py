"""`python -m resetfree.show.cli`."""

import sys

from resetfree.show.cli import main

if __name__ == "__main__":
    sys.exit(main())
