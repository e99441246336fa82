"""Prints the table of the battery; status 1 if a claim has no kill."""

from __future__ import annotations

import sys

from tests.mutants import late_plans
from tests.mutants.battery import MUTANTS, claims, kills, table

assert late_plans.__name__ in {broken.__module__ for broken in MUTANTS.values()}  # importing it adds its mutants
found, killed = claims(), kills()
print(table(found, killed))
sys.exit(any(not any(claim in hit for hit in killed.values()) for claim in found))
