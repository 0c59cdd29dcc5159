"""The report in a real browser: phone and desk, light and dark, on paper; by eye of a machine: contrast, order, names.

`OUTLAST_SCREENSHOTS=DIR` keeps the pictures.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from outlast.rehearse.page import as_page
from report_samples import hostile, of_nothing, usual

sys.path.insert(0, str(Path(__file__).parents[1] / "rehearsal"))
import victims

playwright = pytest.importorskip("playwright.sync_api")
_CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(_CHROMIUM is None, reason="chromium is not installed")

# What Debian's Chromium needs as root without a GPU, and what keeps it from talking to anybody.
_ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# WCAG 2.2: contrast (1.4.3) of each text against the nearest background below it. Returns those below 4.5.
_LOW_CONTRAST = """() => {
  const part = v => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 };
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0) return c;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType == 3 && n.data.trim()) || e.closest('title')) continue;
    const style = getComputedStyle(e), ink = rgb(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push([e.tagName, e.textContent.slice(0, 40), (a + 0.05) / (b + 0.05)]);
  }
  return found;
}"""
# WCAG 2.2: 1.1.1 (pictures have names), 1.3.1 (order of headings, heads of tables), 3.1.1 (language).
_FAULTS = """() => {
  const found = [], all = s => [...document.querySelectorAll(s)];
  if (document.documentElement.lang != 'en') found.push('no language');
  const levels = all('h1,h2,h3,h4').map(h => +h.tagName[1]);
  if (levels[0] != 1 || levels.filter(l => l == 1).length != 1) found.push('not one h1 first');
  levels.forEach((l, i) => { if (i && l > levels[i - 1] + 1) found.push('a level is left out') });
  for (const s of all('svg')) {
    if (s.parentElement.closest('svg')) continue;
    if (s.getAttribute('aria-hidden') != 'true' && !(s.getAttribute('role') == 'img' && s.getAttribute('aria-label')))
      found.push('a picture without a name');
  }
  for (const t of all('table')) if (!t.caption || !t.querySelector('th[scope]')) found.push('a table without heads');
  for (const s of all('section')) if (!document.getElementById(s.getAttribute('aria-labelledby')))
    found.push('a section without a name');
  const ids = all('[id]').map(e => e.id);
  if (new Set(ids).size != ids.length) found.push('an id twice');
  if (all('main').length != 1) found.push('not one main');
  return found;
}"""
_OUTSIDE = """() => [...document.querySelectorAll('body *')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width && !e.closest('svg.defs') && (box.right > innerWidth + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 120))"""


def _rehearse(folder: Path, page: Path) -> None:
    """A real report, by the command."""
    (folder / "job.py").write_text(victims.SURVIVOR)
    command = [sys.executable, "-c", "from outlast.cli.main import main; main()", "rehearse", "--report", str(page)]
    subprocess.run(
        [*command, "--interruptions", "3", "--", sys.executable, "job.py"],
        cwd=folder,
        env={**os.environ, "OUTLAST_GRACE": "0.5"},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=_CHROMIUM, args=_ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "usual": as_page(usual()),
        "nothing": as_page(of_nothing()),
        "hostile": as_page(hostile()),
    }
    _rehearse(tmp_path_factory.mktemp("job"), folder / "real.html")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {page.stem: page for page in folder.iterdir()}


def _picture(page: Any, name: str) -> None:
    kept = os.environ.get("OUTLAST_SCREENSHOTS")
    data = page.screenshot(full_page=True, path=f"{kept}/{name}.png" if kept else None)
    assert len(data) > 5000


@pytest.mark.parametrize("name", ["usual", "nothing", "hostile", "real"])
def test_a_report_reads_well_on_every_screen_and_does_nothing(browser: Any, pages: dict[str, Path], name: str) -> None:
    with browser.new_context() as context:
        page, seen = context.new_page(), []
        page.on("console", lambda message: seen.append(message.text))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("dialog", lambda dialog: seen.append(dialog.message))
        page.on("request", lambda request: seen.append(request.url))
        page.goto(pages[name].as_uri())
        for width, scheme in ((360, "light"), (360, "dark"), (1280, "light"), (1280, "dark")):
            page.set_viewport_size({"width": width, "height": 800})
            page.emulate_media(color_scheme=scheme)
            assert page.evaluate(_OUTSIDE) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert page.evaluate(_LOW_CONTRAST) == []
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[scheme]
            if (width == 360) == (scheme == "light"):
                _picture(page, f"{name}-{width}-{scheme}")
        assert page.evaluate(_FAULTS) == []
        assert "outlast rehearse on" in page.title()
        assert seen == [pages[name].as_uri()]  # one request, for the file itself, and no complaint


def test_a_report_is_printed_dark_on_white_and_shows_its_bars(browser: Any, pages: dict[str, Path]) -> None:
    with browser.new_context(viewport={"width": 800, "height": 800}, color_scheme="dark") as context:
        page = context.new_page()
        page.goto(pages["usual"].as_uri())
        page.emulate_media(media="print")
        body = "getComputedStyle(document.body)"
        assert page.evaluate(f"{body}.backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate(f"{body}.printColorAdjust") == "exact"
        assert page.evaluate(_LOW_CONTRAST) == []
        assert page.pdf(format="A4").startswith(b"%PDF")


def test_the_timeline_keeps_its_scale_on_a_phone(browser: Any, pages: dict[str, Path]) -> None:
    """What is lost is drawn where it was, as long as it was, and a mark is as large as on a desk."""
    sizes = []
    for width in (360, 1280):
        with browser.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            page.goto(pages["usual"].as_uri())
            box = "document.querySelector('ol.timeline {}').getBoundingClientRect()"
            track, lost, mark = (page.evaluate(f"{box.format(one)}.toJSON()") for one in (".track", ".lost", ".save"))
            assert lost["width"] / track["width"] == pytest.approx(1 / 24, rel=0.05)  # 1 s of 24
            assert (lost["x"] - track["x"]) / track["width"] == pytest.approx(7 / 24, rel=0.01)
            sizes.append(round(mark["width"]))
    assert sizes[0] == sizes[1] > 5
