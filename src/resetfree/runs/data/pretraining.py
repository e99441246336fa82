"""Before the first round: the primal player learns from data, and begins with the policy of an old run."""

from __future__ import annotations

import numpy as np

from resetfree.core.errors import InvalidInput, RunError
from resetfree.runs.data.dataset import GivenData, taught
from resetfree.runs.data.dataset_loading import data_of
from resetfree.runs.file.ledger import Ledger
from resetfree.runs.request import FromWhat
from resetfree.runs.result import Run
from resetfree.runs.setup import Setup


def taught_anew(setup: Setup, source: FromWhat) -> GivenData | None:
    """Let the primal player of a new run learn from the data, before the first round."""
    problem, game, primal = setup.world.problem, setup.game, setup.primal
    given = _loaded(setup, source)
    game.primal = taught(primal, game.primal, problem, given)
    return given


def taught_again(setup: Setup, ledger: Ledger, source: FromWhat) -> GivenData | None:
    """Let the primal player of a resumed run learn again from the data in its file."""
    problem, given, file = setup.world.problem, ledger.data(), ledger.path
    if source:
        now = _loaded(setup, source)
        if given is None or now is None or now.about(now.rows())["digest"] != ledger.spec["data"]["digest"]:
            raise RunError(f"The run file '{file}' began with other data: resume it without them, it holds its own.")
    try:
        learned = {} if given is None or given.numbering is None else dict(given.numbering)
        if given is not None and given.units is not None and problem.units is None:
            learned["units"] = np.array(given.units)
        if learned:
            problem.restore({**problem.saved(), **learned})
        setup.game.primal = taught(setup.primal, setup.game.primal, problem, given)
    except InvalidInput as error:
        raise RunError(f"The data in '{file}' do not fit this problem or these players: {error}") from error
    return given


def _loaded(setup: Setup, source: FromWhat) -> GivenData | None:
    """The data of a request as episodes of the problem."""
    problem, primal, old = setup.world.problem, setup.primal, source.start_from
    assert old is None or isinstance(old, Run)  # a file is loaded before
    fresh = None if old is None else primal.init(problem, setup.spec["episodes"], setup.spec["seed"])
    return data_of(source.data, old, source.from_what, problem, player=primal, fresh=fresh)
