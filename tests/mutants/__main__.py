"""Prints the table of the battery; status 1 if a claim has no kill."""

import sys

from tests.mutants import late_plans, narrow_widths, on_a_continuum, sharp_bounds
from tests.mutants.battery import MUTANTS, claims, kills, table

modules = {broken.__module__ for broken in MUTANTS.values()}
assert {
    late_plans.__name__,
    narrow_widths.__name__,
    sharp_bounds.__name__,
    on_a_continuum.__name__,
} <= modules  # importing them adds their mutants
found, killed = claims(), kills()
print(table(found, killed))
sys.exit(any(not any(claim in hit for hit in killed.values()) for claim in found))
