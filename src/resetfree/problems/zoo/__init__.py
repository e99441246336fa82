"""Registered problems, one file each; `resetfree.problems.registry` finds them in this folder."""

from resetfree.problems.zoo.fields import SYMBOLS
from resetfree.problems.zoo.generated import family_of

__all__ = ["SYMBOLS", "family_of"]
