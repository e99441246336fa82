"""The contract battery: checks that every player must pass; run it on players of your own as well.

battery          read first: `check_primal` and `check_dual`, one check per clause of the contract
trial_problems   the small problems and scripted opponents that they are checked on
"""
