"""The game of the paper: a primal player chooses policies, a dual player the price of a reset; both learn.

loop           read first: the whole game on one screen; FEEDBACK has the signals that the dual player can get
contract       what a player is (`init`, `plan`, `update`), and `Round`, the record that both players learn from
capabilities   what a player can offer beyond that, each a small protocol, and `choose`, which resolves "auto"
delayed        the same game where plans are some rounds old; fleet: several machines and one learner
replay_buffer  every transition of a run, for players that use all of them again

Players are in `players`, the run that saves each round in `runs`, and the theorems about the game in `theory`.
"""
