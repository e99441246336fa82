"""Sweep files that ask for the impossible, and folders of sweeps that were tampered with."""

import random
import re
from pathlib import Path

from tests.fuzz.damage import damage
from tests.fuzz.worker import EVIL

VALUES = (
    "0", "-1", "1", "1_000_000_000", "1000000000000", "9223372036854775808", "1" + "0" * 30, "1" + "0" * 5000, "0.5",
    "nan", "inf", "-inf", "1e400", "true", '""', '"x"', '"\\u0000"', "[]", "{}", "[[]]", "[[1, 2]]", "[0, 1, -1]",
    "[1, 1]", '["a", 1]', "{ a = { b = 1 } }", "1979-05-27", "07:32:00", '"grid-v0"', '"gym:CartPole-v1"', '"gym:"',
    '":"',
    "[" * 300 + "]" * 300, "[" * 20_000 + "]" * 20_000, "[" + "1, " * 5000 + "]", '"' + "x" * 100_000 + '"',
    "{a=" * 500 + "1" + "}" * 500, "'''", "[1, 2", '"linear-ucb"', '["uniform", "uniform"]',
    '"tests.fuzz.factories:leaves"', '"tests.fuzz.factories:raises"', '"tests.fuzz.factories:gives_nothing"',
    "[10, 20]", "{ x = [1, 2, 3] }",
)  # fmt: skip
KEYS = (
    "sweep", "sweep.episodes", "sweep.seeds", "sweep.more", "problem", "problem.id", "problem.options", "players",
    "problem.options.slip", "problem.options.horizon", "problem.episodes", "players.primal", "players.dual",
    "players.feedback", "players.bound", "players.settings", "players.settings.primal", "players.settings.primal.scale",
    "players.settings.dual", "trial", "more", '"" ', '"a b"', "sweep.seeds.deep",
)  # fmt: skip
TEXTS = (
    "", "\0", "= 1", "[", "[[problem]]", "[sweep]\n[sweep]\n", "a" * 100_000, "[a." + "b." * 3000 + "c]\n",
    "\n".join(f"[[problem]]\nid = 'grid-v0'\noptions.n = {list(range(50))}" for _ in range(30)),
    "[sweep]\nepisodes = 5\nseeds = 1000000\n[[problem]]\nid = 'grid-v0'\noptions.slip = "
    + str([i / 1000 for i in range(900)]) + "\n",
    "[sweep]\nepisodes = 2\n[[problem]]\nid = 'pits-v0'\n[[players]]\nprimal = '" + EVIL + "'\n",
)  # fmt: skip


def edit_text(text: str, rng: random.Random) -> tuple[str, list[str]]:
    """A sweep file with one to three of its values replaced, keys added, or none of its text left."""
    words = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        way = rng.random()
        if way < 0.6:
            lines = [i for i, line in enumerate(text.splitlines()) if "=" in line]
            if lines:
                at, value = rng.choice(lines), rng.choice(VALUES)
                split = text.splitlines()
                split[at] = split[at].partition("=")[0] + "= " + value
                text = "\n".join(split) + "\n"
                words.append(f"{split[at][:80]}")
        elif way < 0.85:
            key, value = rng.choice(KEYS), rng.choice(VALUES)
            # A dotted key goes to the table that is open last, so both an own table and a stray key come about.
            table, _, name = key.partition(".")
            line = f"[[{table}]]\n{name} = {value}\n" if name and rng.random() < 0.5 else f"{key} = {value}\n"
            text = text + line if rng.random() < 0.5 else line + text
            words.append(line[:80])
        elif way < 0.93:
            text = rng.choice(TEXTS)
            words.append(f"all of it: {text[:40]!r}")
        else:
            raw, said = damage(text.encode("utf-8", "surrogateescape"), rng)
            text = raw.decode("utf-8", "surrogateescape")
            words += said
    return text, words


def spoil_folder(folder: Path, rng: random.Random) -> list[str]:
    """A sweep's folder with one of its files damaged, gone, or another thing altogether."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    file = rng.choice(files)
    name = file.relative_to(folder)
    way = rng.random()
    if way < 0.1:
        file.unlink()
        return [f"{name} removed"]
    if way < 0.2:
        file.unlink()
        file.mkdir()
        return [f"{name} is a folder"]
    if way < 0.3:
        errors = folder / "errors"
        errors.mkdir(exist_ok=True)
        odd = rng.choice(("x.txt", f"{file.stem}.txt", "a\nb.txt", "\udcff.txt"))
        (errors / odd).write_bytes(rng.choice((b"", b"\xff\xfe", b"x\n" * 100_000)))
        return [f"errors/{odd!r} put there"]
    if way < 0.5:
        plan = folder / "sweep.toml"
        text, words = edit_text(plan.read_text(), rng)
        if rng.random() < 0.3:
            text = re.sub(r'"grid-v0"', f'"{EVIL}:f"', text)
            words.append("its problem is code")
        plan.write_bytes(text.encode("utf-8", "surrogateescape"))
        return [f"sweep.toml: {word}" for word in words]
    data, words = damage(file.read_bytes(), rng)
    file.write_bytes(data)
    return [f"{name}: {word}" for word in words]
