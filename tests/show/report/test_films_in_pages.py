"""The film in a page: what it shows, where it is made by itself, and that page and film stay small."""

import base64
import io
import re
from pathlib import Path

import pytest
from PIL import Image

from resetfree.show.report import filming, films, write_report
from resetfree.show.report.film_files import scenes_of
from resetfree.show.report.films import FilmOfRun, film_of
from resetfree.show.report.groups import collect

Files = dict[str, list[Path]]


def pictures(text: str, kind: str) -> list[Image.Image]:
    found = re.findall(f'src="data:image/{kind};base64,([^"]+)"', text)
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in found]


def test_the_page_of_a_run_on_a_map_has_its_film_and_is_small(files: Files, tmp_path: Path) -> None:
    run = files["auto"][0]
    write_report([run], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    (film,) = pictures(text, "gif")
    group = collect([run], None, None).groups[0]
    titles = [scene.title for scene in scenes_of(group.runs[0])]
    told = filming.titles_in_words(titles)
    assert told.startswith("the first life, ")
    words = re.search(r'<details class="film" open>.*?<p>(.*?)</p>', text)
    assert words is not None
    assert f"The run with seed 0: {told} (" in words[1]
    assert getattr(film, "n_frames", 1) > len(titles)
    size = re.search(r"(\d+\.\d+) MB", words[1])
    assert size is not None
    content = base64.b64decode(re.findall(r'data:image/gif;base64,([^"]+)"', text)[0])
    assert float(size[1]) == round(len(content) / 1e6, 2)
    assert len(content) <= films.MOST_BYTES
    assert len(text) - len(content) * 4 / 3 < 3_000_000
    assert pictures(text, "jpeg") == []  # a map needs no pictures of its own


def test_a_film_is_made_where_it_costs_little(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    one = collect(files["auto"][:1], None, None).groups
    assert isinstance(film_of(one, None), FilmOfRun)
    assert film_of(one, False) is None
    several = collect([files["auto"][0], files["ucb"][0]], None, None).groups
    assert film_of(several, None) is None
    assert film_of(several, True) == "A film is of one group of runs: make a page of one of them."
    unseen = collect(files["no_oracle"], None, None).groups
    assert film_of(unseen, None) is None
    assert str(film_of(unseen, True)).startswith("There is no film: ")
    monkeypatch.setattr(films, "MOST_BYTES", 40_000)
    small = film_of(one, None)
    assert isinstance(small, FilmOfRun)
    assert len(small.film.content) <= 40_000


def test_pictures_that_led_to_resets_are_shown_side_by_side(tmp_path: Path) -> None:
    from resetfree.show.cli import main

    path = tmp_path / "cart.rfrun"
    player = ["--primal", "uniform", "--dual", "counting", "--feedback", "realised", "--set", "horizon=30"]
    assert main(["run", "CartPole-v1", *player, "--episodes", "6", "--film", "8", "--out", str(path)]) == 0
    found = film_of(collect([path], None, None).groups, None)
    assert isinstance(found, FilmOfRun)
    assert found.source == "kept"
    resets = [title for title in found.titles if title.startswith("reset")]
    assert resets
    assert [title for title, _ in found.before] == resets[: films.RESETS]
    text = films.strips(found)
    assert len(pictures(text, "jpeg")) == sum(len(shown) for _, shown in found.before) == films.BEFORE * len(resets)
    assert f"Before {resets[0]}; the last picture" in text
