"""Builds the packages, tries the wheel where there is no compiler, and lints the other files.

    python tools/package.py [--directory dist] [--no-repair]

Container files cannot be run here, so hadolint, compose-lint and kubernetes-validate look at them.

Fails if the wheel holds what it should not, if its installation needs a compiler or takes more than
SIZE_MAX_MB without extras, or if a broker from it does not serve a client that nobody here wrote.
Prints what it measured.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from leporid.server.web_pages import read_folder
from leporid.webui import FOLDER

ROOT: Final = Path(__file__).parents[1]
SIZE_MAX_MB: Final = 30.0
MB: Final = 1e6
# Sources of the engine, and what the compiler makes of them on the way.
UNWANTED: Final = (".c", ".pyx", ".pxd", ".h", ".html", ".o")
# The web UI's folder, whose files are no source of the engine.
PAGES: Final = "leporid/webui/"
# Nobody outside calls the engine, so the stubs that its sources are checked with stay at home.
STUBLESS: Final = "leporid/engine/"
# The only commands that an installation may use; a compiler is not among them.
COMMANDS: Final = ("sh", "env", "uname", "ldd")

# Runs in the installation's own Python.
SMOKE: Final = """
import pathlib, signal, subprocess, sys, tempfile
import pika
leporid = str(pathlib.Path(sys.executable).with_name("leporid"))
with tempfile.TemporaryDirectory() as directory:
    command = [leporid, "serve", "--data-dir", directory, "--amqp-port", "0", "--http-port", "0"]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        words = dict(word.split("=") for word in broker.stdout.readline().split()[1:])
        port, http = (int(words[name].rpartition(":")[2]) for name in ("amqp", "http"))
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("smoke", durable=True)
        persistent = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "smoke", b"hello", properties=persistent)
        assert channel.basic_get("smoke", auto_ack=True)[2] == b"hello"
        connection.close()
        subprocess.run([leporid, "ping", "--http-port", str(http)], check=True)
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(60) == 0, broker.returncode
    finally:
        broker.kill()
        broker.wait()
"""


# Each with its arguments.
LINTS: Final = (
    ("hadolint", "packaging/docker/Dockerfile"),
    ("compose-lint", "packaging/docker/compose.yaml"),
    ("kubernetes-validate", "--strict", "packaging/kubernetes/leporid.yaml"),
)


class PackageError(Exception):
    """The packages are not what they should be."""


def main() -> int:
    """Build and try; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, default=ROOT / "dist", metavar="DIR")
    parser.add_argument("--no-repair", action="store_true", help="leave the wheel's tag as it is")
    options = parser.parse_args()
    try:
        lint()
        wheel = build(options.directory)
        check_wheel(wheel)
        if not options.no_repair:
            wheel = repaired(wheel)
        with tempfile.TemporaryDirectory() as directory:
            try_out(wheel, Path(directory))
    except (PackageError, subprocess.CalledProcessError) as error:
        print(f"package: {error}", file=sys.stderr)
        return 1
    return 0


def lint() -> None:
    """Look at the files that cannot be run here."""
    for name, *arguments in LINTS:
        run([str(Path(sys.executable).with_name(name)), *arguments], directory=ROOT)
        print(f"{name}: {arguments[-1]} is in order")


def build(directory: Path) -> Path:
    """Build both, the wheel from the source distribution; returns the wheel."""
    shutil.rmtree(directory, ignore_errors=True)
    # Cython and setuptools are those of the environment, which pyproject.toml has chosen.
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", str(directory), str(ROOT)])
    (source,) = directory.glob("*.tar.gz")
    (wheel,) = directory.glob("*.whl")
    print(f"{source.name}: {source.stat().st_size / MB:.1f} MB")
    print(f"{wheel.name}: {wheel.stat().st_size / MB:.1f} MB")
    return wheel


def check_wheel(wheel: Path) -> None:
    """Look whether all that is compiled, or a page, is there, and nothing it was made of."""
    names = zipfile.ZipFile(wheel).namelist()
    unwanted = [name for name in names if name.endswith(UNWANTED) and not name.startswith(PAGES)]
    unwanted += [name for name in names if name.startswith(STUBLESS) and name.endswith(".pyi")]
    if unwanted:
        raise PackageError(f"the wheel holds {', '.join(unwanted[:5])} …")
    source = ROOT / "src"
    modules = {str(each.relative_to(source).with_suffix("")) for each in source.rglob("*.pyx")}
    compiled = {name.partition(".")[0] for name in names if name.endswith(".so")}
    if modules != compiled:
        raise PackageError(f"compiled modules are missing or too many: {modules ^ compiled}")
    pages = {f"{PAGES}{name}" for name in read_folder(FOLDER)}
    if not pages <= set(names):
        raise PackageError(f"files of the web UI are missing: {pages - set(names)}")
    print(f"{len(compiled)} compiled modules, {len(names)} files")


def repaired(wheel: Path) -> Path:
    """Strip the wheel, and give it the tag of the oldest Linux that it runs on."""
    directory = wheel.parent / "repaired"
    # Without symbols, which an eighth of the engine is, and which only profilers look at.
    repair = [sys.executable, "-m", "auditwheel", "repair", "--strip"]
    run([*repair, "--wheel-dir", str(directory), str(wheel)])
    (found,) = directory.glob("*.whl")
    wheel.unlink()
    moved = Path(shutil.move(found, wheel.parent / found.name))
    directory.rmdir()
    print(f"{moved.name}: {moved.stat().st_size / MB:.1f} MB")
    return moved


def try_out(wheel: Path, directory: Path) -> None:
    """Install the wheel without a compiler, and run a broker from it."""
    run([sys.executable, "-m", "venv", str(directory / "venv")])
    python = directory / "venv" / "bin" / "python"
    commands = directory / "commands"
    commands.mkdir()
    for command in COMMANDS:
        there = shutil.which(command)
        if there is not None:
            (commands / command).symlink_to(there)
    environment = os.environ | {"PATH": f"{python.parent}:{commands}"}
    for name in ("CC", "CXX", "PYTHONPATH"):
        environment.pop(name, None)
    if shutil.which("cc", path=environment["PATH"]) or shutil.which(
        "gcc", path=environment["PATH"]
    ):
        raise PackageError("there is a compiler, so that nothing is shown")
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    packages = directory / "packages"
    run([*pip, "--no-compile", "--target", str(packages), str(wheel)], environment)
    sizes = {each.name: size_of(each) for each in packages.iterdir()}
    total = sum(sizes.values())
    largest = sorted(sizes, key=lambda name: -sizes[name])[:5]
    print(f"installed without extras: {total / MB:.1f} MB, of which")
    for name in largest:
        print(f"  {sizes[name] / MB:5.1f} MB {name}")
    if total > SIZE_MAX_MB * MB:
        raise PackageError(f"an installation takes more than {SIZE_MAX_MB} MB")
    run([*pip, str(wheel)], environment)
    leporid = str(python.with_name("leporid"))
    run([leporid, "--version"], environment)
    run([*pip, "pika"], environment)
    run([str(python), "-c", SMOKE], environment, directory)
    print("a broker from the wheel serves pika")


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a directory."""
    if path.is_file():
        return path.stat().st_size
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())


def run(
    command: Sequence[str], environment: dict[str, str] | None = None, directory: Path | None = None
) -> None:
    """Run a command; its output is shown if it fails."""
    done = subprocess.run(
        command, env=environment, cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise PackageError(f"{' '.join(command[:4])} …: {done.stdout[-3000:]}{done.stderr[-3000:]}")


if __name__ == "__main__":
    sys.exit(main())
