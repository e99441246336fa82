"""The site builds without a warning, loads nothing from elsewhere, has no dead link, and knows every player."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock

import resetfree
from resetfree.players import BASES, discover

DOCS = Path(__file__).parents[1] / "docs"
LOADING = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("use", "href"), ("link", "href")}


class Page(HTMLParser):
    """What a page loads, where it leads, and the places in it that can be led to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.text = path.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id":
                self.places.add(value)
            elif (tag, name) in LOADING:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.leads.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly and once, however many processes the tests are spread over."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "site"
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():
            build(folder)
        told = (folder / "told").read_text()
    assert told == "0\n"
    return folder / "html"


def build(folder: Path) -> None:
    """Write the site, and what the build said; it could not reach anything, since the proxies lead nowhere."""
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    options = ["-W", "--keep-going", "-q", "-E", "-b", "html", "-d", str(folder / "trees")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(folder / "html")],
        capture_output=True,
        text=True,
        env={**os.environ, **nowhere},
    )
    folder.mkdir(exist_ok=True)
    (folder / "told").write_text(f"{done.returncode}\n{done.stderr}")


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def test_every_page_of_the_folder_is_built(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        if "_build" not in page.parts:
            assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for address in page.loads:
            parts = urlsplit(address)
            assert not parts.netloc, (path, address)
            assert parts.scheme in ("", "data"), (path, address)
    for sheet in site.rglob("*.css"):
        for address in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s;]+)", sheet.read_text()):
            assert address.startswith("data:") or not urlsplit(address).netloc, (sheet, address)


def test_every_link_leads_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    checked = 0
    for path, page in pages.items():
        for address in page.leads + page.loads:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path, address)
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].places, (path, address)
            checked += 1
    assert checked > 1000


def test_no_page_leads_out(pages: dict[Path, Page]) -> None:
    out = {a for page in pages.values() for a in page.leads if urlsplit(a).netloc and "127.0.0.1" not in a}
    assert not out


def test_formulas_are_rendered_without_a_script(pages: dict[Path, Page], site: Path) -> None:
    for name in ("idea", "theory", "guarantees"):
        text = pages[site / f"{name}.html"].text
        assert "<math" in text, name
        assert "$" not in re.sub(r"<(pre|code|script)\b.*?</\1>", "", text, flags=re.S), name
    assert not any("mathjax" in address.lower() for page in pages.values() for address in page.loads)


def test_the_search_has_excerpts_where_the_site_is_read_from_a_disk(site: Path, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue("browser").new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{(site / 'search.html').as_uri()}?q=abyss")
    page.wait_for_selector("#search-results li p.context", timeout=120_000)
    found = {item.inner_text() for item in page.query_selector_all("#search-results li")}
    page.goto(f"{(site / 'search.html').as_uri()}?q=multiplier")  # a word of pages, and of names of the API
    page.wait_for_selector("#search-results li", timeout=120_000)
    assert "(Python" not in page.inner_text("#search-results li >> nth=0")  # a page comes first
    page.close()
    assert any(text.startswith("The idea") and "an abyss" in text.split("\n", 1)[1] for text in found)
    assert wrong == []


def test_the_live_figure_and_its_picture_are_on_the_page(pages: dict[Path, Page], site: Path) -> None:
    """The rest of the figure is tested in tests/show/test_ledge.py, without the site."""
    page = pages[site / "idea.html"]
    assert {"_static/ledge.js", "_static/ledge_figure.js"} <= {urlsplit(address).path for address in page.loads}
    assert re.search(
        r'<div id="ledge" class="ledge"></div>\s*<div class="ledge-still [^>]*>\s*<p><img [^>]*ledge.svg', page.text
    )


def test_every_player_is_in_the_table_with_what_it_says(pages: dict[Path, Page], site: Path) -> None:
    tables = "".join(
        re.findall(r'<table class="[^"]*players[^"]*".*?</table>', pages[site / "players.html"].text, re.S)
    )
    plain = re.sub(r"<[^>]+>", "", tables)
    for role in BASES:
        for name, cls in discover(role).items():
            assert f'href="api/players.html#{cls.__module__}.{cls.__qualname__}"' in tables, name
            assert f"\n{name}\n" in re.sub(r"\s*\n\s*", "\n", plain), name
    assert plain.count("theorem") >= 8
    assert "resets at most 60 on every path" in plain  # support elimination on grid-v0: S A = 60 pairs


def test_every_public_name_leads_to_its_documentation(pages: dict[Path, Page], site: Path) -> None:
    text = pages[site / "api" / "index.html"].text
    for name in resetfree.__all__:
        assert re.search(rf'<a class="reference internal" href="\w+\.html#resetfree\.[\w.]*\b{name}"', text), name


def test_the_pictures_are_made_by_the_script_beside_them(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-W", "error", str(DOCS / "pictures" / "make.py"), str(tmp_path)], check=True)
    made = {path.name for path in tmp_path.iterdir()}
    pages = "".join((DOCS / f"{page}.md").read_text() for page in ("idea", "architecture", "index"))
    shown = set(re.findall(r"\(pictures/(\w+\.svg)\)", pages))
    assert made == shown == {path.name for path in (DOCS / "pictures").glob("*.svg")}
    for name in made:
        assert "http" not in re.sub(
            r'xmlns(?::\w+)?="[^"]*"|<!DOCTYPE.*?>|<metadata>.*?</metadata>',
            "",
            (tmp_path / name).read_text(),
            flags=re.S,
        )


@pytest.mark.parametrize("page", ["start.md", "adding.md"])
def test_scripts_on_the_pages_are_those_that_the_tests_run(page: str) -> None:
    found = re.findall(r"\{literalinclude\} (\S+)", (DOCS / page).read_text())
    assert found
    for script in found:
        assert (DOCS / script).resolve().is_relative_to(DOCS.parent / "examples")
