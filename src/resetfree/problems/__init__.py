"""What is learned on: environments and models in which a reset costs something and nothing is reset for free.

contract     read first: `Problem` (what a learner sees), `Episode`, `Policy`
stepping     how an episode is played step by step; paced: at a fixed rate, in a world that does not wait
registry     ids, module:factory and Gymnasium environments to problems (`rf.make`)
action_spaces, limits, knowledge, continuum, blueprint, formula   parts of a problem, and its forms as plain data

Folders: finite (models with exact answers), zoo (the registered problems), gym (`rf.from_gym`), features (of states),
operators (who performs a reset), machines (continuous control), remote (machines over a wire), autonomy (tasks of the
reset-free literature).
"""
