"""What is learned on: environments and models in which a reset costs something and nothing is reset for free.

contract     read first: `Problem` (what a learner sees), `Episode`, `Policy`
stepping     how an episode is played step by step; paced: at a fixed rate, in a world that does not wait
registry     ids, module:factory and Gymnasium environments to problems (`rf.make`)
action_spaces, limits, knowledge, continuum, blueprint, formula   parts of a problem, and its forms as plain data

Folders: finite (models with exact answers), zoo (the registered problems), gym (`rf.from_gym`), features (of states),
operators (who performs a reset), machines (continuous control), remote (machines over a wire), autonomy (tasks of the
reset-free literature).

What other rooms name most often can be imported from here.
"""

from resetfree.problems.action_spaces import ActionSpace, Box, Choices, from_unit, to_unit
from resetfree.problems.contract import LIST_THEM, ChoicePolicy, Episode, Intervention, Note, Policy, Problem, State
from resetfree.problems.finite.mdp import FiniteMDP, check_model, model_behind
from resetfree.problems.knowledge import Factor, Factors, GoalColumns, Guidance, has_factors
from resetfree.problems.registry import PROBLEMS, World, find_world

__all__ = [
    "LIST_THEM", "PROBLEMS", "ActionSpace", "Box", "ChoicePolicy", "Choices", "Episode", "Factor", "Factors",
    "FiniteMDP", "GoalColumns", "Guidance", "Intervention", "Note", "Policy", "Problem", "State", "World",
    "check_model", "find_world", "from_unit", "has_factors", "model_behind", "to_unit",
]  # fmt: skip
