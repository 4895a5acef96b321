"""MkDocs' hooks of `make site`: pages from the repository, man pages, headers, Python's docstrings, sounds; dead links.

A link leads to a page or a file of the repository. Each file that is linked becomes a page of the site, as well: a page
of Markdown as it is, another text as a listing, a picture as a file. BUILD is the folder of a finished build.
"""

import html
import html.parser
import os
import pathlib
import posixpath
import re
import shlex
import shutil
import subprocess
import tempfile
import urllib.parse

import griffe
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ["BUILD"]).resolve()
LINK = re.compile(r"(\]\(|\b(?:src|href)=\")([^)\s\"#:]+)(?=[)#\"])")
DRY = "1\n"  # a mask of one tap
WAY = "time,source,azimuth\n" + "".join(f"{time},{source},{azimuth + 15 - 30 * (source - 1)}\n" for time, azimuth in
                                        [(0, 75), (4, -75), (8, 75)] for source in (1, 2))
SOURCES = {}  # a page of the site: the file of the repository that its links start from


def target(path):
    """The name that a file of the repository has in the site."""
    if path == "README.md":
        return "index.md"
    path = "pages.md" if path == "docs/README.md" else path.removeprefix("docs/")
    return path if path.endswith((".md", ".svg", ".png", ".jpg")) else f"{path}.md"


def listing(path):
    """A text of the repository as a page, or a folder as a list of its files."""
    if (ROOT / path).is_dir():
        names = sorted(file.name for file in (ROOT / path).iterdir() if file.is_file())
        return f"# {path}/\n\n" + "".join(f"- [{name}]({posixpath.basename(path)}/{name})\n" for name in names)
    lines = html.escape((ROOT / path).read_text(encoding="utf-8"), quote=False).splitlines()
    calls = re.findall(r"\b(hc_\w+)\((?!\*)", "\n".join(line for line in lines if re.match(r"[a-z].*\bhc_\w+\(", line)))
    index = {}
    for number, line in enumerate(lines):
        for name in calls if re.match(r"[a-z]", line) else []:
            if re.search(rf"\b{name}\(", line) and name not in index:
                index[name] = number
                lines[number] = lines[number].replace(name, f'<b id="{name}">{name}</b>', 1)
    links = " · ".join(f"[{name}](#{name})" for name in index) if path.startswith("dsp/haloconv") else ""
    return f"# {path}\n\n{links}\n\n<pre><code>" + "\n".join(lines) + "\n</code></pre>\n"


def manual(page, pages):
    """mandoc's HTML; the names of other man pages become links."""
    done = subprocess.run(["mandoc", "-T", "html", "-O", "fragment,toc", str(page)], stdout=subprocess.PIPE, check=True)
    text = re.sub(r"<table class=\"(head|foot)\">.*?</table>", "", done.stdout.decode(), flags=re.S)
    text = re.sub(r"(?<=<)(/?)h([12])\b", lambda h: f"{h[1]}h{int(h[2]) + 1}", text)
    names = {(path.stem, path.suffix[1:]) for path in pages}

    def link(found):
        known = (found[2], found[3]) in names and found[2] != page.stem
        return f'<a href="{found[2]}.{found[3]}.html">{found[0]}</a>' if known else found[0]

    text = re.sub(r"<(b|i)>(haloconv[\w-]*)</\1>\((\d)\)", link, text)
    text = re.sub(r"<a class=\"permalink\"[^>]*>(<a href=.*?</a>)</a>", r"\1", text)  # a link in a link is not HTML
    return f"# {page.stem}({page.suffix[1:]})\n\n<div class=\"manual\">{text}</div>\n"


def sounds(page):
    """Runs the commands of the page; the files that they wrote."""
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        shutil.copy(BUILD / "impulses/drums.wav", work)
        (work / "dry.txt").write_text(DRY)
        (work / "way.csv").write_text(WAY)
        for command in re.findall(r"^haloconv (.*)$", page, re.M):
            subprocess.run([str(BUILD / "haloconv"), *shlex.split(command), "-q"], cwd=work, check=True)
        return {file.name: file.read_bytes() for file in sorted(work.glob("*.ogg"))}


def on_files(files, config):
    for file in list(files.documentation_pages()):
        files.remove(file)
    add = lambda name, **given: files.append(File.generated(config, name, **given))
    manuals = sorted(path for section in "157" for path in BUILD.glob(f"haloconv*.{section}"))
    headers = sorted(f"dsp/{path.name}" for path in (ROOT / "dsp").glob("haloconv*.h"))
    text = (HERE / "sounds.md").read_text(encoding="utf-8")
    pages = re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs/README.md").read_text(encoding="utf-8"))
    pages += sorted({path.name for path in (ROOT / "docs").glob("*.md")} - {*pages, "README.md"})
    modules = ["haloconv", "haloconv.torch", "haloconv.jax", "haloconv_adapters.ray"]
    add("site.css", content=(HERE / "site.css").read_text(encoding="utf-8"))
    add("sounds.md", content=text)
    for name, sound in sounds(text).items():
        add(f"sounds/{name}", content=sound)
    for page in manuals:
        add(f"man/{page.name}.md", content=manual(page, manuals))
    for name in modules:
        add(f"python/{name}.md", content=f"# Python: {name}\n\n::: {name}\n")
    SOURCES.clear()
    SOURCES["sounds.md"] = "packaging/site/sounds.md"
    wanted = ["README.md", "docs/README.md", *(f"docs/{name}" for name in pages), *headers]
    wanted += linked(text, SOURCES["sounds.md"])
    while wanted:  # a page that is linked may link others
        path = wanted.pop(0)
        if target(path) in SOURCES:
            continue
        SOURCES[target(path)] = path
        if path.endswith((".svg", ".png", ".jpg")):
            add(target(path), abs_src_path=str(ROOT / path))
            continue
        content = (ROOT / path).read_text(encoding="utf-8") if path.endswith(".md") else listing(path)
        add(target(path), content=content)
        if path.endswith(".md") or (ROOT / path).is_dir():
            wanted += linked(content, path)
    config.nav = [{"Start": "index.md"}, {"Sounds": "sounds.md"}, {"Pages": ["pages.md", *pages]},
                  {"Manual": [{f"{page.stem}({page.suffix[1:]})": f"man/{page.name}.md"} for page in manuals]},
                  {"C": [{path: target(path)} for path in headers]},
                  {"Python": [{name: f"python/{name}.md"} for name in modules]}]
    return files


def linked(text, source):
    """The files of the repository that a page links."""
    paths = (posixpath.normpath(posixpath.join(posixpath.dirname(source), found[1])) for found in LINK.findall(text))
    return [path for path in paths if not path.startswith("..") and (ROOT / path).exists()]


def on_page_markdown(markdown, page, **_):
    """Links between files of the repository become links between pages of the site."""
    source = SOURCES.get(page.file.src_uri, "")
    here = posixpath.dirname(page.file.src_uri)

    def link(found):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), found[2]))
        if path.startswith("..") or target(path) not in SOURCES:
            return found[0]
        name = posixpath.relpath(target(path), here or ".")
        return found[1] + (name if found[1] == "](" else re.sub(r"\.md$", ".html", name))

    if source and (source.endswith(".md") or (ROOT / source).is_dir()):
        markdown = LINK.sub(link, markdown)
        markdown = re.sub(r"(?m)^(?!- |\d+\. |\s|$)(.+)\n(?=- )", r"\1\n\n", markdown)  # a list below a paragraph
        markdown = re.sub(r"(?m)^(?!\|)(.+)\n(?=\|)", r"\1\n\n", markdown)
    return markdown


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.foreign = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        for name in ("href", "src"):
            url = given.get(name) or ""
            if re.match(r"(\w+:)?//", url) and tag != "a":
                self.foreign.append(url)
            elif url and not re.match(r"\w+:|//", url):
                self.links.append(url)


def on_post_build(config):
    """Refuses dead links in HTML, which MkDocs does not see, and what a page loads from another host."""
    site = pathlib.Path(config.site_dir)
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.relative_to(site)} loads {url}" for url in page.foreign]
        for url in page.links:
            parts = urllib.parse.urlsplit(url)
            name = urllib.parse.unquote(parts.path)
            there = pathlib.Path(os.path.normpath(path.parent / name)) if name else path
            there = there / "index.html" if there.is_dir() else there
            anchor = urllib.parse.unquote(parts.fragment)
            if not there.is_file() or (anchor and there in pages and anchor not in pages[there].ids):
                wrong.append(f"{path.relative_to(site)} links {url}, which does not exist")
    if wrong:
        raise PluginError("\n".join(wrong))


class Preformatted(griffe.Extension):
    """Docstrings of classes and calls have columns. That of the package stays Markdown."""

    def on_object(self, *, obj, **_):
        if obj.docstring:
            obj.docstring.value = f"````\n{obj.docstring.value}\n````"
