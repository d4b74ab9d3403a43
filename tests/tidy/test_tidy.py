"""The rules of this project that no linter knows; CONTRIBUTING.md gives the reasons.

Each rule is one test that lists every offence, as `path:line: what to do instead`.
"""

import ast
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import leporid

ROOT = Path(__file__).parents[2]

MODULE_LINES_MAX = 700  # enough for any one idea: a limit is no reason to cut an idea in two
LONG_MODULE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
LINE_CHARACTERS_MAX = 100
FILE_BYTES_MAX = 256 * 1024

# Modules that may have up to LONG_MODULE_LINES_MAX lines, each with the reason.
LONG_MODULES: dict[str, str] = {
    "src/leporid/client/codec.pyx": "a connection scans the frames of its channels, and "
    "these write to its output, in the order in which they settle and publish",
    "src/leporid/engine/connection/channel.pyx": "a channel is one idea: its deliveries and "
    "confirms share their order",
    "src/leporid/engine/connection/connection.pyx": "frames are handled in their order, whatever "
    "they are, and held back together",
    "src/leporid/engine/selectors/selector_set.pyx": "what is indexed must be what is asked: the "
    "first message and the rest of a match go the same ways",
}

# Modules without a test file of their own, each with the reason. A package's `__init__.py` needs
# none as long as it only names things.
UNTESTED_MODULES: dict[str, str] = {
    "src/leporid/storage/database.py": "one of the two files behind `definitions`, tested there",
}

BANNED_NAMES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}

# What src/ must not contain, and what to do instead. Ruff finds forgotten prints in Python.
BANNED_IN_SOURCE = {
    r"\b(TODO|FIXME|XXX|HACK)\b": "do it, or open an issue and say there what is missing",
    r"(?<![\w.])breakpoint\(": "take the breakpoint out",
    r"\bpdb\b": "take the debugger out",
}
BANNED_IN_CYTHON = {r"(?<![\w.])(?:print|printf)\(": "the engine has no output of its own"}

# What no file of the repository may contain.
BANNED_EVERYWHERE = {
    r"(?:^|[\s\"'`(=:])/(?:home|root|work|Users|mnt)/\w": "no path of one machine",
    r"--(?:extra-)?index-url|--find-links|PIP_INDEX": "no package index of one machine",
    r"(?i)\b(?:black|white)-?list": "say denied or allowed",
    r"(?i)\bsanity[ -]check": "say what is checked",
    r"(?i)\b(?:obviously|needless to say|as everybody knows)\b": "leave the word out",
    r"^(?:<{7}|>{7}) ": "resolve the conflict",
}

# What the engine must not import: the contracts of pyproject.toml once more, as import-linter does
# not see into Cython, and the C counterparts of what they forbid.
BANNED_IN_ENGINE = re.compile(
    r"^\s*(?:from|import|cimport)\s+"
    r"(?:asyncio|os|random|socket|time|threading"
    r"|libc\.time|libc\.stdio|posix\.(?!mman\b|types\b)\w+"
    r"|leporid\.(?!engine\b|filters\b|amqp\b)\w+)\b"
)
# The client's Cython modules are above the engine's: they know each other, and the engine's bytes.
CLIENT = ROOT / "src" / "leporid" / "client"
CLIENT_IMPORT = re.compile(r"^\s*from leporid\.(?:client\b|engine\.wire\b)")

# Settings of RabbitMQ and Spark whose names look like those of our modules.
SETTINGS_OF_OTHERS = {
    "management.oauth_client_id",
    "management.oauth_client_secret",
    "management.oauth_scopes",
    "management.ssl.fail_if_no_peer_cert",
    "management.ssl.port",
    "management.ssl.verify",
    "management.tcp.port",
    "spark.python.daemon.module",
    "spark.streams.removeListener",
}

SKIPPED_FOLDERS = {".git", ".venv", "build", "dist", "__pycache__", ".cache"}


def repository_files() -> list[Path]:
    """Every file that is in git or would be added; without git, every file that is not built."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
        paths = [ROOT / name for name in listed.decode().split("\0") if name]
        return sorted({path for path in paths if path.is_file()})
    return sorted(
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not SKIPPED_FOLDERS.intersection(path.relative_to(ROOT).parts)
        and not any(part.endswith((".egg-info", "_cache")) for part in path.parts)
        and path.suffix not in {".so", ".pyc"}
    )


FILES = repository_files()
CODE_SUFFIXES = {".py", ".pyi", ".pyx", ".pxd", ".h"}
CODE = [path for path in FILES if path.suffix in CODE_SUFFIXES]
SOURCES = [path for path in CODE if path.is_relative_to(ROOT / "src")]
MARKDOWN = [path for path in FILES if path.suffix == ".md"]
HERE = Path(__file__)
# Where statements have others in them.
BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lines_of(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def text_files() -> Iterator[tuple[Path, list[str]]]:
    """Every file that is text, with its lines."""
    for path in FILES:
        data = path.read_bytes()
        if b"\0" not in data[:8192]:
            yield path, data.decode("utf-8", "replace").splitlines()


def python_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of each function of a Python file."""
    # Not `ast.walk`: it goes into expressions, too, where no function has a name.
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    for node in waiting:
        for block in BLOCKS:
            waiting += getattr(node, block, ())
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.lineno, node.end_lineno - node.lineno + 1


def cython_functions(path: Path) -> Iterator[tuple[str, int, int]]:
    """Name, first line and length of each function of a Cython file, by its indentation."""
    lines = lines_of(path)
    opening = re.compile(r"^(\s*)(?:cp?def|def|async def)\b(?!\s+class\b)[^=]*?(\w+)\s*\(")
    for start, line in enumerate(lines):
        found = opening.match(line)
        if not found:
            continue
        indent = len(found.group(1))
        end = start
        signature = not line.rstrip().endswith(":")
        for number in range(start + 1, len(lines)):
            text = lines[number]
            if text.strip() and not signature and len(text) - len(text.lstrip()) <= indent:
                break
            if signature and text.rstrip().endswith(":"):
                signature = False
            if text.strip():
                end = number
        yield found.group(2), start + 1, end - start + 1


def functions_of(path: Path) -> Iterator[tuple[str, int, int]]:
    if path.suffix == ".py":
        return python_functions(path)
    return cython_functions(path) if path.suffix == ".pyx" else iter(())


def only_imports(path: Path) -> bool:
    """Whether a module holds nothing but a docstring, imports and plain names."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    plain = (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    return all(isinstance(node, plain) for node in body)


def test_file_of(path: Path) -> Path:
    """Where the test of a module belongs: tests mirror src."""
    inside = path.relative_to(ROOT / "src" / "leporid")
    stem = path.parent.name if path.stem == "__init__" else path.stem
    return ROOT / "tests" / inside.parent / f"test_{stem}.py"


test_file_of.__test__ = False  # type: ignore[attr-defined]


def report(offences: list[str]) -> None:
    if offences:
        pytest.fail("\n" + "\n".join(offences), pytrace=False)


def offences_in(lines: list[str], path: Path, banned: dict[str, str]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {instead}: {line.strip()[:60]}"
        for number, line in enumerate(lines, 1)
        for pattern, instead in banned.items()
        if re.search(pattern, line)
    ]


def test_modules_are_short():
    report(
        [
            f"{name_of(path)}: {count} lines; split it, at most {limit}"
            for path in CODE
            for count in [len(lines_of(path))]
            for limit in [
                LONG_MODULE_LINES_MAX if name_of(path) in LONG_MODULES else MODULE_LINES_MAX
            ]
            if count > limit
        ]
    )


def test_long_modules_still_need_their_exception():
    report(
        [
            f"{name}: take it out of LONG_MODULES"
            for name in LONG_MODULES
            if not (ROOT / name).exists() or len(lines_of(ROOT / name)) <= MODULE_LINES_MAX
        ]
    )


def test_functions_are_short():
    report(
        [
            f"{name_of(path)}:{line}: {name} has {count} lines; at most {FUNCTION_LINES_MAX}"
            for path in CODE
            for name, line, count in functions_of(path)
            if count > FUNCTION_LINES_MAX
        ]
    )


def test_lines_are_short():
    other = [path for path in FILES if path.suffix in {".toml", ".sh"} or path.name == "Makefile"]
    report(
        [
            f"{name_of(path)}:{number}: {len(line)} characters; at most {LINE_CHARACTERS_MAX}"
            for path in [*CODE, *other]
            for number, line in enumerate(lines_of(path), 1)
            if len(line) > LINE_CHARACTERS_MAX
        ]
    )


def test_source_has_no_leftovers():
    report(
        [
            offence
            for path in SOURCES
            for banned in [BANNED_IN_SOURCE | (BANNED_IN_CYTHON if path.suffix == ".pyx" else {})]
            for offence in offences_in(lines_of(path), path, banned)
        ]
    )


def test_no_file_has_banned_words():
    report(
        [
            offence
            for path, lines in text_files()
            if path not in {HERE, ROOT / "LICENSE"}
            for offence in offences_in(lines, path, BANNED_EVERYWHERE)
        ]
    )


def test_modules_are_named_after_an_idea():
    report(
        [
            f"{name_of(path)}: name it after what it does"
            for path in CODE
            if BANNED_NAMES.intersection(
                [*path.relative_to(ROOT).parts[:-1], path.stem.removeprefix("test_")]
            )
        ]
    )


def test_modules_say_what_they_are_for():
    offences = []
    for path in SOURCES:
        if path.suffix == ".py":
            says = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is not None
        elif path.suffix in {".pyx", ".pxd"}:
            says = path.read_text(encoding="utf-8").lstrip().startswith('"""')
        else:
            continue
        if not says:
            offences.append(f"{name_of(path)}:1: begin with a docstring: what it is for")
    report(offences)


def test_modules_have_a_test_file():
    offences = [
        f"{name}: gone; take it out of UNTESTED_MODULES"
        for name in UNTESTED_MODULES
        if not (ROOT / name).exists()
    ]
    for path in SOURCES:
        name = name_of(path)
        if path.suffix not in {".py", ".pyx"}:
            continue
        if path.name == "__init__.py" and only_imports(path):
            continue
        tested = test_file_of(path).exists()
        if tested and name in UNTESTED_MODULES:
            offences.append(f"{name}: has a test now; take it out of UNTESTED_MODULES")
        if not tested and name not in UNTESTED_MODULES:
            offences.append(f"{name}: test it in {name_of(test_file_of(path))}")
    report(offences)


def test_engine_modules_have_a_stub():
    report(
        [
            f"{name_of(path)}: write {path.stem}.pyi beside it, so that its users are type-checked"
            for path in SOURCES
            if path.suffix == ".pyx" and not path.with_suffix(".pyi").exists()
        ]
    )


def allowed_in_client(path: Path, line: str) -> bool:
    """Whether the client's Cython modules may import this; stubs name futures that are given."""
    return bool(CLIENT_IMPORT.match(line)) or (path.suffix == ".pyi" and line == "import asyncio")


def test_engine_imports_point_down():
    report(
        [
            f"{name_of(path)}:{number}: the engine must not know this: {line.strip()}"
            for path in SOURCES
            if path.suffix in {".pyx", ".pxd", ".pyi"}
            for number, line in enumerate(lines_of(path), 1)
            if BANNED_IN_ENGINE.search(line)
            and not (path.is_relative_to(CLIENT) and allowed_in_client(path, line))
        ]
    )


def is_in_package(name: str) -> bool:
    """Whether a dotted name below `leporid` is a module's, or that of something in a module."""
    folder = ROOT / "src" / "leporid"
    parts = name.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    if not parts:
        return True
    modules = [*folder.glob(f"{parts[0]}.py*")]
    rest = parts[1:] if modules else parts
    texts = [path.read_text(encoding="utf-8") for path in modules or [folder / "__init__.py"]]
    return all(any(re.search(rf"\b{part}\b", text) for text in texts) for part in rest)


def test_modules_that_docstrings_name_are_there():
    package = ROOT / "src" / "leporid"
    folders = "|".join(path.parent.name for path in package.glob("*/__init__.py"))
    named = re.compile(rf"`(?:leporid\.)?((?:{folders})(?:\.[a-z_]\w*)+)`")
    report(
        [
            f"{name_of(path)}:{number}: there is no {name}"
            for path in SOURCES
            for number, line in enumerate(lines_of(path), 1)
            for name in named.findall(line)
            if name not in SETTINGS_OF_OTHERS and not is_in_package(name)
        ]
    )


def test_pages_have_one_title():
    offences = []
    for path in MARKDOWN:
        text = re.sub(r"(?ms)^(```|~~~).*?^\1", "", path.read_text(encoding="utf-8"))
        titles = re.findall(r"(?m)^# \S", text)
        if len(titles) != 1:
            offences.append(f"{name_of(path)}: {len(titles)} titles (`# …`); exactly one")
    report(offences)


def test_links_between_pages_lead_somewhere():
    offences = []
    for path in MARKDOWN:
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:|#", target):
                continue
            if not (path.parent / target.partition("#")[0]).exists():
                offences.append(f"{name_of(path)}: nothing at {target}")
    report(offences)


def test_decisions_are_in_their_index():
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    titles = {
        path: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for path in sorted((ROOT / "docs/decisions").glob("0*.md"))
    }
    report(
        [
            f"{name_of(path)}: docs/decisions/README.md has no line `| [{title}]({path.name}) | …`"
            for path, title in titles.items()
            if f"\n| [{title}]({path.name}) | " not in index
        ]
    )


def test_files_are_small():
    report(
        [
            f"{name_of(path)}: {path.stat().st_size} bytes; at most {FILE_BYTES_MAX}"
            for path in FILES
            if path.stat().st_size > FILE_BYTES_MAX
        ]
    )


def test_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert leporid.__version__ == project["version"]
