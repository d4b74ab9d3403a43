"""The web UI's modules: they parse, import only downwards, and what they import is there."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from leporid.webui import FOLDER

# What may be imported from where. A page never imports a page, so that each can be read alone.
ALLOWED = {
    "core": {"core", "vendor"},
    "parts": {"core", "parts"},
    "pages": {"core", "parts"},
    "": {"core", "parts"},
}
# Libraries that a component loads by itself, when it is first drawn.
LOADED_LATER = {("parts/chart.js", "vendor/uplot.js")}

LINES_MAX = 400
CHARACTERS_MAX = 100
FIRST_PAGE_BYTES_MAX = 150_000

IMPORT = re.compile(r"""^(?:import|export)\s[^;]*?\bfrom\s+["']([^"']+)["'];""", re.M | re.S)
LAZY = re.compile(r"""\bimport\(\s*["']([^"']+)["']\s*\)""")
NAMES = re.compile(r"""^import\s+\{([^}]*)\}\s+from\s+["']([^"']+)["'];""", re.M | re.S)
EXPORT = re.compile(r"^export\s+(?:async\s+)?(?:function|const|class|let)\s+(\w+)", re.M)
EXPORT_LIST = re.compile(r"^export\s+\{([^}]*)\};", re.M | re.S)
MARKUP = re.compile(
    r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write)\b"
)

SOURCES = sorted(
    each.relative_to(FOLDER).as_posix()
    for each in FOLDER.rglob("*.js")
    if each.parent.name != "vendor"
)


def text_of(name: str) -> str:
    return (FOLDER / name).read_text()


def target(name: str, imported: str) -> str:
    """The file that an import means."""
    found = (FOLDER / name).parent.joinpath(imported).resolve()
    return found.relative_to(FOLDER.resolve()).as_posix()


def imports(name: str) -> list[str]:
    return [target(name, each) for each in IMPORT.findall(text_of(name))]


def lazy_imports(name: str) -> list[str]:
    return [target(name, each) for each in LAZY.findall(text_of(name))]


def folder(name: str) -> str:
    parent = PurePosixPath(name).parent.as_posix()
    return "" if parent == "." else parent


def exported(name: str) -> set[str]:
    text = text_of(name)
    listed = [each.strip() for some in EXPORT_LIST.findall(text) for each in some.split(",")]
    return {*EXPORT.findall(text), *filter(None, listed)}


def closure(first: set[str]) -> set[str]:
    """All files that come with these before anything is drawn."""
    found: set[str] = set()
    left = list(first)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [] if folder(name) == "vendor" else imports(name)
    return found | ({"vendor/preact.js"} if "vendor/hooks.js" in found else set())


@pytest.mark.parametrize("name", SOURCES)
def test_a_module_imports_what_is_there_and_below(name: str) -> None:
    for each in imports(name):
        assert (FOLDER / each).is_file(), f"{name} imports {each}, which is not there"
        assert folder(each) in ALLOWED[folder(name)], f"{name} imports {each}"
    for each in lazy_imports(name):
        assert (FOLDER / each).is_file(), f"{name} loads {each}, which is not there"
        allowed = {"pages"} if name == "main.js" else {"parts"}
        assert folder(each) in allowed or (name, each) in LOADED_LATER, f"{name} loads {each}"


@pytest.mark.parametrize("name", SOURCES)
def test_a_name_that_is_imported_is_exported(name: str) -> None:
    for names, place in NAMES.findall(text_of(name)):
        source = target(name, place)
        if folder(source) == "vendor":
            continue
        wanted = {each.split(" as ")[0].strip() for each in names.split(",")} - {""}
        assert wanted <= exported(source), f"{source} has no {wanted - exported(source)}"


@pytest.mark.parametrize("name", SOURCES)
def test_a_module_is_small_says_what_it_is_for_and_makes_no_markup_of_text(name: str) -> None:
    text = text_of(name)
    lines = text.splitlines()
    assert len(lines) <= LINES_MAX
    assert max(map(len, lines)) <= CHARACTERS_MAX
    assert text.startswith("/* "), "a module begins with what it is for"
    assert not MARKUP.search(text)


def test_modules_parse(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed; browsers tell it as well")
    # One process for all: `--check` takes one file, and begins anew for each.
    script = tmp_path / "check.mjs"
    script.write_text(
        "import {readFileSync} from 'node:fs';\n"
        "import {SourceTextModule} from 'node:vm';\n"
        "let bad = 0;\n"
        "for (const name of process.argv.slice(2)) {\n"
        "  try { new SourceTextModule(readFileSync(name, 'utf8'), {identifier: name}); }\n"
        "  catch (error) { bad = 1; console.log(name, String(error)); }\n"
        "}\n"
        "process.exit(bad);\n"
    )
    paths = [str(FOLDER / each) for each in SOURCES]
    command = [node, "--experimental-vm-modules", "--no-warnings", str(script), *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def first_page() -> set[str]:
    """What the overview needs, but for the index."""
    later = {"vendor/uplot.js"}
    return closure({"main.js", "pages/overview.js"}) | later


def test_the_index_asks_at_once_for_all_that_the_first_page_needs() -> None:
    index = text_of("index.html")
    preloaded = re.findall(r'<link rel="modulepreload" href="ui/([^"]+)"', index)
    assert len(preloaded) == len(set(preloaded))
    assert set(preloaded) == first_page() - {"main.js"}


def test_the_first_page_is_small() -> None:
    files = {*first_page(), "index.html", "style.css", "vendor/uplot.css", "icon.svg"}
    size = sum(len(gzip.compress((FOLDER / each).read_bytes(), 9)) for each in files)
    assert size < FIRST_PAGE_BYTES_MAX
    # All of it were nothing, too, if it was not found.
    assert len(files) > 20


def test_the_index_has_nothing_inline_and_nothing_of_another_place() -> None:
    index = text_of("index.html")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", index)
    assert not re.search(r"url\([\"']?(?:https?:)?//|@import", text_of("style.css"))
