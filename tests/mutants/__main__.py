"""Prints the table of the battery; status 1 if a claim has no kill."""

from __future__ import annotations

import sys

from tests.mutants.battery import claims, kills, table

found, killed = claims(), kills()
print(table(found, killed))
sys.exit(any(not any(claim in hit for hit in killed.values()) for claim in found))
