"""A reset-free problem of your own: is it well posed, what is the best one can do, what is a reset worth?"""

import numpy as np

import resetfree as rf

# A pump: run it cool (pays a little) or hot (pays more, may seize). State 2, seized, needs a manual reset.
P = np.zeros((3, 2, 3))
P[0, 0, 0] = 1.0  # cool, run gently: stays cool
P[0, 1] = [0.5, 0.5, 0.0]  # cool, run hard: may get hot
P[1, 0] = [0.8, 0.2, 0.0]  # hot, run gently: cools down
P[1, 1] = [0.0, 0.7, 0.3]  # hot, run hard: may seize
pump = rf.FiniteMDP(
    P,
    reward=[[0.2, 0.6], [0.1, 1.0], [0.0, 0.0]],
    reset=[False, False, True],
    horizon=10,
    name="pump",
    state_names=["cool", "hot", "seized"],
    action_names=["gently", "hard"],
)

print(rf.check(pump))
best = rf.solve(pump)
for s in np.flatnonzero(best.feasible):
    safe = [pump.action_names[a] for a in np.flatnonzero(best.safe_actions[0, s])]
    print(f"{pump.state_names[s]:>5}: safe {safe}, V* = {best.value[s]:.4f}, a reset is worth {best.lambda_hat[s]:.4f}")
resets = sum(episode.reset for episode in rf.simulate(pump.problem(), best.policy, episodes=1000, seed=0))
print(f"1000 episodes of the best reset-free policy: {resets} resets")
for claim in rf.certify_problem(pump)[:4]:
    print(claim)
