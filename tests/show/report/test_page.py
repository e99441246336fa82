"""The page: one file, offline, nothing runs that we did not write, everybody can read it and take figures from it."""

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest
from tests.show.report.conftest import EVIL, pump
from tests.show.report.reading import Page, read

from resetfree.show.report import style, write_report
from resetfree.show.report.figures import THEMED
from resetfree.show.report.page import PALETTE

Files = dict[str, list[Path]]


@pytest.fixture(scope="module")
def page(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Page:
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_report([*files["auto"], *files["ucb"], *files["theory"]], path)
    return read(path)


def test_nothing_comes_from_outside(page: Page) -> None:
    for name in ("href", "src", "srcset", "action", "data", "poster", "xlink:href"):
        assert all(value.startswith(("#", "data:")) for value in page.attributes(name))
    assert not {tag for tag, _ in page.tags} & {"link", "iframe", "object", "embed", "base", "form", "foreignobject"}
    sheet, script = page.texts["style"][0], page.texts["script"][0]
    assert not re.search(r"https?:|//[a-z]|@import|url\(|fetch|XMLHttp|import\(", sheet + script.partition("\n// ")[2])


def test_the_policy_lets_our_script_and_sheet_in_and_nothing_else(page: Page) -> None:
    (policy,) = [g["content"] or "" for t, g in page.tags if g.get("http-equiv") == "Content-Security-Policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == "'none'"
    assert parts["img-src"] == "data: blob:"
    for kind, tag in (("style-src", "style"), ("script-src", "script")):
        content = "".join(page.texts[tag])
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert parts[kind] == f"'sha256-{digest}'"
        assert [name for name, _ in page.tags].count(tag) == 1
    assert not page.attributes("style"), "inline styles would be blocked"
    assert not [key for _, given in page.tags for key in given if key.startswith("on")]


def test_every_figure_has_words_and_four_things_to_save(page: Page) -> None:
    assert len(page.figures) == 4 + 14 + 14 + 8  # rules about danger are drawn for one of them
    for figure in page.figures.values():
        assert figure.buttons == ["svg", "png"]
        assert set(figure.links) == {"pdf", "csv"}
        assert figure.links["pdf"].startswith(b"%PDF-")
        assert len(figure.links["csv"].splitlines()) > 1
        assert len(figure.labels) == 1
        assert len(figure.labels[0]) > 10
        counted = "n = " in figure.caption or "counted in the legend" in figure.caption
        alone = figure.name.startswith("g3-")  # a single run, of which no caption speaks as of many
        assert counted or alone or figure.name.endswith(("-map", "-oracle")), figure.caption
        assert not (alone and "no interval" in figure.caption)


def test_identifiers_are_unique_and_links_lead_somewhere(page: Page) -> None:
    found = page.attributes("id")
    assert len(found) == len(set(found))
    references = [v for v in page.attributes("href") if v.startswith("#")]
    references += [
        f"#{name}" for _, g in page.tags for v in g.values() for name in re.findall(r"url\(#([^)]+)\)", v or "")
    ]
    assert references
    assert {name.removeprefix("#") for name in references} <= set(found)


def test_headings_are_in_order_and_everything_has_a_name(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert ("html", {"lang": "en"}) in page.tags
    assert all(given.get("aria-label") for tag, given in page.tags if given.get("role") in ("img", "region"))
    assert all(given.get("scope") for tag, given in page.tags if tag == "th")
    boxes = [given for tag, given in page.tags if "wide" in (given.get("class") or "").split()]
    assert len(boxes) == [tag for tag, _ in page.tags].count("table"), "a table scrolls in its own box"
    assert all(given["tabindex"] == "0" for given in boxes), "and the box can be reached by keyboard"


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("side", [0, 1], ids=["light", "dark"])
def test_words_and_main_lines_stand_out_in_light_and_dark(side: int) -> None:
    colour = {name: pair[side] for name, pair in PALETTE.items()}
    for back in ("paper", "raised"):
        assert all(contrast(colour[name], colour[back]) >= 4.5 for name in ("ink", "soft", "link"))
        assert all(contrast(colour[name], colour[back]) >= 3.0 for name in ("blue", "orange", "green", "grey"))
    assert all(contrast(colour[name], colour[f"{name}-back"]) >= 4.5 for name in ("good", "bad", "plain"))


def test_the_colours_of_figures_follow_the_page() -> None:
    assert set(THEMED.values()) <= set(PALETTE)
    assert all(PALETTE[name][0] == colour for colour, name in THEMED.items())
    assert {*style.CYCLE, style.GREY, style.INK} <= set(THEMED)


def test_a_drawing_in_the_page_uses_names_of_colours(files: Files, tmp_path: Path) -> None:
    write_report(files["no_oracle"], tmp_path / "r.html")
    page = read(tmp_path / "r.html")
    strokes = {value for _, given in page.tags for key, value in given.items() if key in ("stroke", "fill")}
    assert f"var(--orange, {style.ORANGE})" in strokes
    assert f"var(--ink, {style.INK})" in strokes
    assert style.INK not in strokes
    assert style.ORANGE not in strokes


@pytest.mark.parametrize("with_model", [False, True])
def test_words_of_strangers_are_words_only(files: Files, tmp_path: Path, with_model: bool) -> None:
    problem = pump(EVIL, [EVIL, "=1+1", "c"]) if with_model else None
    out = tmp_path / "r.html"
    write_report(files["evil"], out, problem=problem, figures=tmp_path / "figures" if with_model else None)
    page = read(out)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "alert" not in "".join(page.texts["script"])
    assert EVIL in "".join(page.texts["h2"])
    if with_model:
        names = page.data("g1-multiplier-starts")["name"]
        assert set(names) <= {EVIL[:59] + "…", EVIL, "'=1+1"}
        assert "'=1+1" in names, "a spreadsheet must not compute it"
    for path in (tmp_path / "figures").glob("*.svg"):
        ET.parse(path)


def test_figures_are_written_in_every_format(files: Files, tmp_path: Path) -> None:
    made = write_report(files["no_oracle"], tmp_path / "r.html", figures=tmp_path / "new" / "figures")
    page = read(tmp_path / "r.html")
    folder = tmp_path / "new" / "figures"
    assert {p.name for p in folder.iterdir()} == {
        f"{n}.{e}" for n in made.figures for e in ("svg", "pdf", "png", "csv")
    }
    for name in made.figures:
        root = ET.parse(folder / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["width"].endswith("pt")
        assert "var(" not in (folder / f"{name}.svg").read_text()
        pdf = (folder / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF-")
        assert b"/Type3" not in pdf, "journals ask for TrueType"
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / f"{name}.csv").read_bytes() == page.figures[name].links["csv"]


def test_the_same_runs_give_the_same_page(files: Files, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        write_report(files["no_oracle"], tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
