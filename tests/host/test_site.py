"""make site: its pages, manuals, headers and docstrings, sounds, dead links; in Chromium its widths and colours."""

import contextlib
import functools
import http.server
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import soundfile
from conftest import BUILD, PUBLIC_HEADERS, ROOT

sys.path.append(str(ROOT / "tests/live"))
from browser import MISSING, browser  # noqa: E402

PYTHON = BUILD / "site-venv/bin/python"
HAS_TOOLS = PYTHON.with_name("mkdocs").exists() and shutil.which("mandoc") and (BUILD / "impulses/made").exists()
needs_tools = pytest.mark.skipif(not HAS_TOOLS,
                                 reason="no MkDocs, mandoc or masks; make site installs and makes them")
FAINT = """
const rgb = text => text.match(/[\\d.]+/g).map(Number);
const over = (top, below) => [0, 1, 2].map(i => top[i] * (top[3] ?? 1) + below[i] * (1 - (top[3] ?? 1)));
const behind = e => { const layers = [];
                      for (; e; e = e.parentElement) layers.push(rgb(getComputedStyle(e).backgroundColor));
                      return layers.reduceRight((below, top) => over(top, below), [255, 255, 255]); };
const light = c => c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
                    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const faint = {}, walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const e = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !e.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
  for (let p = e; p && p !== document.body; p = p.parentElement)
    if (getComputedStyle(p).backgroundImage !== "none") faint[`${p.tagName}.${p.className}`] = "text over a picture";
  const below = behind(e), [a, b] = [light(over(rgb(getComputedStyle(e).color), below)), light(below)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (!(contrast >= 4.5)) faint[`${e.tagName}.${e.className} ${contrast.toFixed(2)}`] = walk.currentNode.data.trim();
}
return faint;"""


def build(root, folder):
    config = str(root / "packaging/site/mkdocs.yml")
    return subprocess.run([str(PYTHON), "-m", "mkdocs", "build", "-q", "-f", config, "-d", str(folder)],
                          env={**os.environ, "BUILD": str(BUILD)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout
    return folder


@needs_tools
def test_the_site_has_each_page_manual_call_and_python_name(site):
    for page in (ROOT / "docs").glob("*.md"):
        name = "pages" if page.name == "README.md" else page.stem
        title = re.sub(r"[`*]", "", page.read_text().splitlines()[0])[2:]
        text = re.sub(r"<.*?>", "", re.search(r"<h1.*?</h1>", (site / f"{name}.html").read_text(), re.S).group())
        assert text.rstrip("#") == title.replace("&", "&amp;"), page
    manuals = [page for section in "157" for page in BUILD.glob(f"haloconv*.{section}")]
    assert manuals and all((site / f"man/{page.name}.html").exists() for page in manuals)
    for header in PUBLIC_HEADERS:
        declared = set(re.findall(r"^\w[\w *]*?\b(hc_\w+)\(", header.read_text(), re.M))
        named = re.findall(r'<b id="(hc_\w+)">', (site / f"dsp/{header.name}.html").read_text())
        assert declared and declared == set(named) and len(named) == len(set(named)), declared ^ set(named)
    module = (ROOT / "plugins/python/haloconv/__init__.py").read_text()
    ids = set(re.findall(r' id="haloconv\.([\w.]+)"', (site / "python/haloconv.html").read_text()))
    public = re.findall(r'"(\w+)"', re.search(r"__all__ = \[.*?\]", module, re.S).group())
    names = {name for name in public if not name.isupper()}
    assert names <= ids and "Stream.process" in ids, names - ids
    assert "linear convolution" in (site / "python/haloconv.html").read_text()


@needs_tools
def test_the_sounds_are_dry_and_through_a_hall_a_cabinet_and_a_moving_source(site):
    named = re.findall(r'<audio[^>]*src="sounds/(\w+)\.ogg"', (site / "sounds.html").read_text())
    assert named == ["dry", "hall", "cabinet", "moving"]
    assert max((site / f"sounds/{name}.ogg").stat().st_size for name in named) < 300_000
    sounds = {name: soundfile.read(site / f"sounds/{name}.ogg")[0] for name in named}
    dry, rate = soundfile.read(BUILD / "impulses/drums.wav")
    assert sounds["dry"].shape == dry.shape and np.corrcoef(sounds["dry"][:, 0], dry[:, 0])[0, 1] > 0.95  # Vorbis
    assert len(sounds["hall"]) > len(dry) + rate and np.abs(sounds["hall"][len(dry):]).max() > 1e-3  # its decay

    def above(hertz, sound):
        """The energy of each channel above a frequency."""
        return np.square(np.abs(np.fft.rfft(sound, axis=0))[len(sound) * hertz // rate:]).sum(axis=0)

    assert all(above(8000, sounds["cabinet"][: len(dry)]) < 0.2 * above(8000, sounds["dry"]))
    left, right = (above(2000, sounds["moving"][start: start + rate]) for start in (0, int(3.5 * rate)))
    assert left[0] > 1.5 * left[1] and right[1] > 1.5 * right[0]


@needs_tools
def test_a_dead_link_or_a_file_of_another_host_fails_the_build_which_names_page_and_link(tmp_path):
    copy = tmp_path / "copy"
    (copy / "packaging").mkdir(parents=True)
    for path in ROOT.iterdir():
        if path.name not in ("docs", "packaging", "build", ".git"):
            (copy / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copytree(ROOT / "packaging/site", copy / "packaging/site")
    links = {"room": "[x](nothing.md)", "gpu": "[x](faq.md#nothing)", "c": '<a href="nothing.html">x</a>',
             "method": '<img src="https://example.org/x.png">'}
    for name, link in links.items():
        with open(copy / f"docs/{name}.md", "a") as page:
            page.write(f"\n{link}\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode != 0
    for name, link in links.items():
        target = re.search(r"[\w:/.]*(nothing|x\.png)", link).group()
        assert any(target in line and re.search(rf"\b{name}\.(md|html)", line) for line in done.stdout.splitlines()), \
            (name, link, done.stdout)


@contextlib.contextmanager
def served(folder):
    """The address of a server of the folder, and the paths that it did not find."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@needs_tools
@pytest.mark.skipif(bool(MISSING), reason=MISSING or "")
def test_pages_fit_phone_and_desktop_contrast_in_light_and_dark_and_load_nothing_from_elsewhere(site, tmp_path):
    pages = [pathlib.Path(name) for name in ["index", "sounds", "pages", "faq", "method", "moving", "from-camilladsp",
                                             "dsp/haloconv.h", "python/haloconv", "BENCHMARKS"]]
    pages += [path.relative_to(site).with_suffix("") for path in sorted((site / "man").glob("*.html"))]
    pictures = pathlib.Path(os.environ["HC_SITE_PICTURES"]) if os.environ.get("HC_SITE_PICTURES") else tmp_path
    wrong = []
    with served(site) as address, browser(tmp_path) as window:
        for page, (width, height), scheme in itertools.product(pages, [(390, 844), (1280, 800)], ["light", "dark"]):
            window.size(width, height)
            window.scheme(scheme == "light")
            window.open(f"{address}{page}.html")
            window.picture(pictures / f"{page.name}-{width}-{scheme}.png")
            wide = window.run("return document.documentElement.scrollWidth")
            loaded = window.run("return performance.getEntriesByType('resource').map(entry => entry.name)")
            foreign = [url for url in loaded if not url.startswith(address)]
            faint, errors = window.run(FAINT), window.errors()
            assert loaded and window.run("return document.documentElement.dataset.bsTheme") == scheme
            if wide > width or foreign or faint or errors:
                wrong.append((str(page), width, scheme, wide, foreign, faint, errors))
    assert not wrong, "\n".join(map(str, wrong))
