"""Methods that bring a system back themselves, each after its paper, on the one SAC: policies that take turns.

Read first: `turns`, what all of them share, then `forward_backward`, the simplest. A policy of a turn is SAC on states
whose goal was replaced (`problems.knowledge.Guidance`): forward, backward and other tasks are contexts of one problem,
and the multiplier of the dual player is the price of a fall in each. `together` trains many learners in one program.
`docs/autonomy.md` compares them.
"""

from resetfree.players.neural.autonomy.together import train

__all__ = ["train"]
