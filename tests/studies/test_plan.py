"""From a TOML file to trials, and one sentence for every mistake."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import resetfree as rf
from resetfree.studies.plan import check_plan, parse_plan, read_plan
from resetfree.studies.trial import NamedPlayers, Trial

HEAD = "[sweep]\nepisodes = 10\n"
GRID = '[[problem]]\nid = "grid-v0"\n'


def test_every_choice_is_a_trial_and_seeds_are_fastest() -> None:
    plan = parse_plan("""
    [sweep]
    episodes = 10
    seeds = [7, 3]
    [[problem]]
    id = ["grid-v0", "doors-v0"]
    [[problem]]
    id = "pits-v0"
    options = {n = [5, 7], slip = 0.1}
    episodes = 20
    [[players]]
    primal = "linear-ucb"
    feedback = ["realised", "optimistic"]
    bound = 40
    settings.primal.scale = [0.1, 0.2, 0.3]
    [[players]]
    primal = "uniform"
    """)
    assert len(plan.trials) == 4 * (2 * 3 + 1) * 2
    assert len(plan.configurations) == 4 * 7
    assert [t.seed for t in plan.trials] == [7, 3] * 28
    assert plan.trials[0] == Trial(
        "grid-v0", {}, NamedPlayers("linear-ucb", "auto", "realised", 40.0, {"primal": {"scale": 0.1}}), 10, 7
    )
    assert plan.trials[-1] == Trial("pits-v0", {"n": 7, "slip": 0.1}, NamedPlayers("uniform"), 20, 3)
    assert len({t.id for t in plan.trials}) == len(plan.trials)


@given(st.lists(st.integers(1, 3), max_size=3), st.integers(1, 3))
def test_the_number_of_trials_is_the_product(sizes: list[int], seeds: int) -> None:
    options = "".join(f"options.o{i} = {list(range(size))}\n" for i, size in enumerate(sizes))
    plan = parse_plan(f'[sweep]\nepisodes = 5\nseeds = {seeds}\n[[problem]]\nid = "x"\n{options}')
    assert len(plan.trials) == len({t.id for t in plan.trials}) == math.prod(sizes) * seeds


def test_a_list_in_a_list_is_one_value() -> None:
    plan = parse_plan(HEAD + '[[problem]]\nid = "m:f"\noptions.walls = [[1, 2], [3], []]\n')
    assert [t.options["walls"] for t in plan.trials] == [[1, 2], [3], []]


@pytest.mark.parametrize(
    ("text", "wanted"), [("3", [0, 1, 2]), ("[5, 2]", [5, 2]), ("{first = 10, count = 2}", [10, 11])]
)
def test_the_ways_to_name_seeds(text: str, wanted: list[int]) -> None:
    plan = parse_plan(f"[sweep]\nepisodes = 10\nseeds = {text}\n" + GRID)
    assert [t.seed for t in plan.trials] == wanted


def test_a_trial_of_its_own() -> None:
    plan = parse_plan(
        HEAD + 'seeds = 2\n[[trial]]\nproblem = "grid-v0"\nprimal = "uniform"\noptions.slip = 0.3\nseed = 9\n'
        '[[trial]]\nproblem = "pits-v0"\nepisodes = 4\nsettings.dual.B = [1.0, 2.0]\ndual = "projected-gradient"\n'
    )
    assert [(t.problem, t.seed, t.episodes) for t in plan.trials] == [
        ("grid-v0", 9, 10), *[("pits-v0", seed, 4) for seed in (0, 1, 0, 1)]
    ]  # fmt: skip


def test_what_is_asked_for_twice_is_played_once() -> None:
    plan = parse_plan(HEAD + GRID + GRID + '[[trial]]\nproblem = "grid-v0"\n')
    assert (len(plan.trials), plan.repeated) == (1, 2)


def test_the_identity_is_that_of_what_is_asked_for() -> None:
    one = Trial("grid-v0", {"slip": 0.1, "horizon": 4}, NamedPlayers(), 10, 0)
    same = Trial("grid-v0", {"horizon": 4, "slip": 0.1}, NamedPlayers(), 10, 0)
    other = Trial("grid-v0", {"horizon": 4, "slip": 0.1}, NamedPlayers(), 10, 1)
    assert one.id == same.id != other.id
    assert one.configuration == other.configuration


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a = ", "must be TOML"),
        ("[swep]\n", "There is no table of a sweep file 'swep'. Did you mean 'sweep'?"),
        (HEAD, "must have at least one trial"),
        (HEAD + "seed = 3\n" + GRID, "There is no key of [sweep] 'seed'. Did you mean 'seeds'?"),
        (GRID, "must have 'episodes'"),
        (HEAD.replace("10", "0") + GRID, "'episodes' of the [sweep] must be a positive integer below 2^63. Got 0"),
        (HEAD.replace("10", "true") + GRID, "of the [sweep] must be a positive integer below 2^63. Got True"),
        (HEAD + "seeds = []\n" + GRID, "must name at least one seed"),
        (HEAD + "seeds = [-1]\n" + GRID, "must be an integer from 0 and below 2^63. Got -1"),
        (HEAD + "seeds = {first = 2}\n" + GRID, "'count' of the 'seeds' of [sweep] must be a positive integer"),
        (HEAD + '[problem]\nid = "grid-v0"\n', "must be a list of tables, written with two brackets as [[problem]]"),
        (HEAD + '[[problem]]\noptions = {n = 5}\n', "'id' of the [[problem]] must be a name or a list of names. Got"),
        (HEAD + '[[problem]]\nid = 5\n', "must be a name or a list of names. Got 5"),
        (HEAD + GRID + "options = 5\n", "'options' of the [[problem]] must be a table of which each"),
        (HEAD + GRID + "options.slip = []\n", "or a list of them, not empty. Got {'slip': []}"),
        (HEAD + GRID + "options.slip = 2020-01-01\n", "or a list of them, not empty. Got {'slip': datetime.date("),
        (HEAD + GRID + '[[players]]\nprimary = "x"\n', "There is no key of [[players]] 'primary'. Did you mean"),
        (HEAD + GRID + '[[players]]\nfeedback = "loud"\n', "There is no feedback 'loud'"),
        (HEAD + GRID + '[[players]]\nbound = "large"\n', "'bound' of the [[players]] must be a number"),
        (HEAD + GRID + "[[players]]\nsettings.third.x = 1\n", "There is no group of settings of [[players]] 'third'"),
        (HEAD + '[[players]]\nprimal = "uniform"\n', "must have at least one [[problem]]"),
        (HEAD + "[[trial]]\nprimal = 'uniform'\n", "must have a 'problem'"),
        ("[sweep]\nepisodes = 1\nseeds = 1000001\n" + GRID, "at most 1,000,000 trials. Got 1,000,001"),
        (HEAD + "[[trial]]\nproblem = 'grid-v0'\nseeds = 3\n", "There is no key of [[trial]] 'seeds'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(rf.ResetFreeError) as caught:
        parse_plan(text)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value).strip() or "TOML" in sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[problem]]\nid = "grid-v1"\n', "There is no problem 'grid-v1'. Did you mean 'grid-v0'?"),
        (GRID + "options.slippery = 1\n", "There is no option of problem 'grid-v0' 'slippery'."),
        (GRID + 'options.slip = "much"\n', "The option 'slip' of problem 'grid-v0' must be a number from 0 to 1."),
        (GRID + '[[players]]\nprimal = "linear-ucbb"\n', "There is no primal player 'linear-ucbb'."),
        (GRID + '[[players]]\nprimal = "uniform"\nsettings.primal.scale = 1.0\n', "There is no setting of primal"),
        (GRID + '[[players]]\nprimal = "linear-ucb"\nsettings.primal.width = 1\n', "The 'width' of linear-ucb must"),
    ],
)
def test_what_only_the_problem_or_the_player_knows(text: str, sentence: str) -> None:
    plan = parse_plan(HEAD + text)
    with pytest.raises(rf.InvalidInput) as caught:
        check_plan(plan)
    assert sentence in str(caught.value)
    assert "(In the trial '" in str(caught.value)


def test_a_plan_that_is_right_is_let_through(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(HEAD + GRID + '[[players]]\nprimal = ["linear-ucb", "auto"]\n')
    plan, text = read_plan(file)
    check_plan(plan)
    assert len(plan.trials) == 2
    assert text == file.read_text()


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(rf.InvalidInput, match="There is no sweep file"):
        read_plan(tmp_path / "none.toml")
    with pytest.raises(rf.InvalidInput, match="cannot be read"):
        read_plan(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(rf.InvalidInput, match="must be text in UTF-8"):
        read_plan(tmp_path / "bytes.toml")
