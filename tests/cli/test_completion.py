"""Completion: what a word may be, and that a shell gets it."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from leporid.cli.completion import SCRIPTS, candidates
from leporid.cli.main import COMMANDS

SHELL_SECONDS = 30.0


def found(*words: str) -> list[str]:
    return candidates(words, COMMANDS, os.environ)


def test_commands_verbs_and_options():
    assert found("que") == ["queues"]
    assert "serve" in found("")
    assert found("queues", "p") == ["pause", "purge"]
    assert found("queues", "list", "--j") == ["--json"]
    assert found("queues", "list", "--json", "--q") == ["--quiet"]
    assert found("serve", "--limits-h") == ["--limits-handshake-seconds"]
    assert found("top", "--on") == ["--once"]
    assert found("queues", "add", "q", "--type", "") == ["classic", "quorum", "stream"]
    for nothing in (["nonsense", ""], ["queues", "nonsense", ""], ["queues", "list", "x"]):
        assert found(*nothing) == []


def test_names_are_the_brokers(leporid, name):
    vhost = name("v")
    leporid("vhosts", "add", vhost)
    for queue in ("red", "reed", "blue"):
        leporid("queues", "add", queue, "-p", vhost)
    assert found("queues", "show", "-p", vhost, "re") == ["red", "reed"]
    assert found("queues", "delete", "--vhost", vhost, "--yes", "") == ["blue", "red", "reed"]
    assert found("queues", "show", "-p", vhost, "red", "") == []
    assert vhost in found("vhosts", "show", "v")
    leporid("vhosts", "delete", vhost, "--yes")


def test_nobody_answers(monkeypatch):
    monkeypatch.setenv("LEPORID_URL", "http://127.0.0.1:1")
    assert found("queues", "show", "") == []
    assert found("queues", "show", "--url", "nonsense", "") == []


@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_scripts_are_printed(cli, shell):
    assert cli("completion", shell) == SCRIPTS[shell]


def test_bash_completes():
    script = SCRIPTS["bash"] + (
        'COMP_WORDS=(leporid queues p) COMP_CWORD=2; _leporid; echo "${COMPREPLY[@]}"\n'
        'COMP_WORDS=(leporid queues list --js) COMP_CWORD=3; _leporid; echo "${COMPREPLY[@]}"\n'
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-eu", "-c", script],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "pause purge\n--json\n"


def path_with_leporid() -> str:
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


class Zsh:
    """An interactive zsh on a terminal, which is typed at.

    Args:
        directory: its home, with its start-up file.
        setup: what stands in that file, besides what completion takes.
    """

    def __init__(self, directory: Path, setup: str) -> None:
        (directory / ".zshrc").write_text(f"PS1='READY> '\nunsetopt zle_bracketed_paste\n{setup}\n")
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            environment = {
                "HOME": str(directory),
                "ZDOTDIR": str(directory),
                "PATH": path_with_leporid(),
                "TERM": "dumb",
            }
            os.chdir(directory)
            os.execvpe("zsh", ["zsh", "-d", "-i"], environment)
        self.until(b"READY> ")

    def until(self, text: bytes) -> bytes:
        """Return all that it writes until a text comes."""
        seen, deadline = b"", time.monotonic() + SHELL_SECONDS
        while text not in seen:
            left = deadline - time.monotonic()
            assert left > 0, f"{text!r} did not come: {seen!r}"
            assert select.select([self.terminal], [], [], left)[0], (
                f"{text!r} did not come: {seen!r}"
            )
            seen += os.read(self.terminal, 4096)
        return seen

    def typed(self, text: str, then: str) -> bytes:
        """Type a text and TAB; return what is written until something comes, and begin anew."""
        os.write(self.terminal, text.encode() + b"\t")
        seen = self.until(then.encode())
        os.write(self.terminal, b"\x15")
        return seen

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("way", ["eval", "file"])
def test_zsh_completes(tmp_path, way):
    if way == "eval":
        setup = 'autoload -Uz compinit && compinit -u\neval "$(leporid completion zsh)"'
    else:
        (tmp_path / "functions").mkdir()
        (tmp_path / "functions" / "_leporid").write_text(SCRIPTS["zsh"])
        setup = f"fpath=({tmp_path}/functions $fpath)\nautoload -Uz compinit && compinit -u"
    (tmp_path / "definitions.json").touch()
    shell = Zsh(tmp_path, setup)
    try:
        # The rest of the word, and a space.
        shell.typed("leporid queues pur", "ge ")
        shell.typed("leporid queues list --js", "on ")
        shell.typed("leporid per", "missions ")
        # Where nothing is known, a file.
        shell.typed("leporid definitions import defin", "itions.json ")
    finally:
        shell.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(tmp_path):
    (tmp_path / "definitions.json").touch()
    lines = ("leporid queues p", "leporid queues list --js", "leporid definitions import defin")
    script = SCRIPTS["fish"] + "".join(f"complete -C '{line}'\n" for line in lines)
    done = subprocess.run(
        ["fish", "--private", "--no-config", "-c", script],
        env={"HOME": str(tmp_path), "PATH": path_with_leporid(), "XDG_DATA_HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=SHELL_SECONDS,
    )
    found = [line.partition("\t")[0] for line in done.stdout.splitlines()]
    assert found == ["pause", "purge", "--json", "definitions.json"]
