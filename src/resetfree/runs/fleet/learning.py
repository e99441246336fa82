"""`learn_fleet`: machines of one kind act at the same time, and one learner learns from all of them."""

from collections.abc import Sequence
from typing import Any, Unpack

from resetfree.core.errors import InvalidInput
from resetfree.game.contract import DualPlayer, PrimalPlayer
from resetfree.problems.operators import Operator
from resetfree.runs.file.ledger import read_spec_of
from resetfree.runs.fleet.plan import FleetPlan
from resetfree.runs.learn import fulfil
from resetfree.runs.request import Options, RunRequest
from resetfree.runs.result import Run

SINGLE = ("delay", "rate", "controller", "ask", "operator")  # options that are for one machine


def learn_fleet(
    machines: Any,
    primal: str | PrimalPlayer[Any] = "auto",
    dual: str | DualPlayer[Any] = "auto",
    *,
    n: int | None = None,
    operators: int | Sequence[Operator] = 1,
    reset_time: float = 0.0,
    risk: float = 1.0,
    where: str = "auto",
    **options: Unpack[Options],
) -> Run:
    """Learn on several machines of one kind at the same time: each reset teaches all.

    machines: a list with a problem, an environment or an id for each machine; or one id, for `n` machines (16).
    episodes: of all machines together; other options as of `learn`.
    operators: how many operators there are: a machine that needs a reset waits until one is free, who then goes to the
      machine that earned the most. Or a list of people (`OperatorReset`), who are waited for in real time.
    reset_time: steps that a reset takes.
    risk: how many falls may be expected of all episodes under way that try something new. With a smaller number they
      stand longer and fall less; with 1e9 they never stand because of others.
    where: "here", one after the other in this process (finite problems); "threads" (environments that are given as
      objects, and with people); "processes" (what is given by name); "ray" or ray:ADDRESS, on a Ray cluster.

    Rounds are in one run file, in the order in which their episodes were over; `run.columns` has the machine of each,
    when it began and ended, and how long the machine had waited (docs/fleet.md).

    >>> import resetfree as rf
    >>> run = rf.learn_fleet(["grid-v0"] * 4, episodes=200, operators=2, reset_time=10)
    >>> sorted(set(run.columns["machine"].tolist())), len(run)
    ([1, 2, 3, 4], 200)
    """
    given: dict[str, Any] = dict(options)
    for name in SINGLE:
        if given.get(name) not in (None, "never"):
            raise InvalidInput(f"The '{name}' of learn is for one machine. Leave it out of learn_fleet.")
    several = isinstance(machines, Sequence) and not isinstance(machines, str)
    first = next(iter(machines), None) if several else machines
    request = RunRequest.of(first, {"primal": primal, "dual": dual, **options})
    if request.where.resume and "seed" not in options and request.where.path is not None:
        request = request.changed("what", seed=read_spec_of(request.where.path)["seed"])
    how = {"operators": operators, "reset_time": reset_time, "risk": risk, "where": where}
    world, plan = FleetPlan.of(machines, n, dict(request.what.options), **how)
    with world:
        return fulfil(request, world, plan)
