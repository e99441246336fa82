"""Learn, stop in the middle, resume, and certify: the use of a run file."""

import tempfile
from pathlib import Path

import resetfree as rf

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "grid.rfrun"

    def power_cut(game: object, this: rf.Round) -> None:
        """End the program in the middle of the run."""
        if this.k == 700:
            raise SystemExit

    try:
        rf.learn("grid-v0", episodes=2000, seed=0, path=path, progress=power_cut)
    except SystemExit:
        print(f"stopped after {len(rf.load(path))} episodes")
    run = rf.learn("grid-v0", episodes=2000, seed=0, path=path, resume=True)
    print(f"{run.spec['primal']['name']} was chosen: {run.spec['chosen']}")
    print(f"Regret {run.regret[-1]:.1f}, expected resets {run.resets[-1]:.1f}, realised {run.realised_resets[-1]}")
    proved = [claim for claim in run.certificates() if claim.status == "proved"]
    print(f"{sum(claim.holds for claim in proved)} of {len(proved)} proved claims hold")
