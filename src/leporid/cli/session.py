"""One command at work: the broker that it asks, the virtual host that it means, what it writes.

Responsible for joining options, contexts, client and output, for questions before something is
destroyed, and for turning the broker's refusals into exit codes. Must not know any noun.

Invariant: nothing is destroyed unless `--yes` was given or somebody at a terminal typed the name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

from leporid.cli import contexts
from leporid.cli.command import Verb
from leporid.cli.outcomes import (
    DONE,
    INTERRUPTED,
    Failure,
    Forbidden,
    NotThere,
    WrongUse,
    one_line,
    tell,
)
from leporid.cli.output import Output
from leporid.client.management import (
    FORBIDDEN,
    NOT_FOUND,
    UNAUTHORIZED,
    Management,
    ManagementError,
    Query,
    path_of,
)

T = TypeVar("T")

BAD_REQUEST: Final = 400
METHOD_NOT_ALLOWED: Final = 405
NOT_ACCEPTABLE: Final = 406
AMQP_NOT_FOUND: Final = "404 "
AMQP_REFUSED: Final = "403 "
NO_VHOST_OR_USER: Final = "vhost_or_user_not_found"
"""What RabbitMQ gives as the reason of a 400 when permissions are set."""


class Session:
    """One command at work.

    Args:
        options: of the command line.
        environment: the process's.
        output: what is written goes there; None: standard output, as the options say.
    """

    def __init__(
        self,
        options: argparse.Namespace,
        environment: Mapping[str, str] | None = None,
        output: Output | None = None,
    ) -> None:
        self.options = options
        self.environment = os.environ if environment is None else environment
        self.out = output or Output(
            as_json=getattr(options, "json", False), quiet=getattr(options, "quiet", False)
        )

    @cached_property
    def context(self) -> contexts.Context:
        """Which broker."""
        known = contexts.load(contexts.file_of_contexts(self.environment))
        return contexts.chosen(self.options, self.environment, known)

    @cached_property
    def api(self) -> Management:
        """Its management API; connects when something is asked."""
        try:
            return Management(contexts.address_of(self.context, self.environment))
        except ValueError as error:
            raise WrongUse(str(error)) from None

    @property
    def vhost(self) -> str:
        """The virtual host that is meant: what the options say, or else the context's."""
        return getattr(self.options, "vhost", None) or self.context.vhost

    @property
    def vhost_asked(self) -> str | None:
        """The virtual host that the options name; None for all."""
        return getattr(self.options, "vhost", None)

    def close(self) -> None:
        """Close the connection to the broker, if there is one."""
        if "api" in self.__dict__:
            self.api.close()

    # ------------------------------------------------------------- asking

    def get(self, *path: str, query: Query | None = None, missing: str = "") -> Any:
        """Return what is at a path.

        Args:
            path: names below /api/.
            query: parameters.
            missing: what to call it in the message if it is not there.

        Raises:
            Failure: the broker refuses, or does not answer.
        """
        return self.asking(lambda: self.api.get(_path_of(path), query), missing)

    def put(
        self,
        *path: str,
        body: Any = None,
        query: Query | None = None,
        missing: str = "",
        what: str = "",
    ) -> bool:
        """Put something; returns whether it was made, and not there before.

        Args:
            path: names below /api/.
            body: is sent as JSON.
            query: parameters.
            missing: what to call it in the message if it is not there.
            what: needs the path, if brokers may not have it.
        """

        def ask() -> int:
            return self.api.put(_path_of(path), body, query)

        status = self._optional(ask, what, missing) if what else self.asking(ask, missing)
        return status == 201

    def post(
        self, *path: str, body: Any = None, query: Query | None = None, missing: str = ""
    ) -> Any:
        """Post something; returns what is answered."""
        return self.asking(lambda: self.api.post(_path_of(path), body, query), missing)

    def delete(
        self,
        *path: str,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        missing: str = "",
    ) -> Any:
        """Delete something; returns what is answered."""
        return self.asking(lambda: self.api.delete(_path_of(path), query, headers), missing)

    def pages(
        self, *path: str, query: Query | None = None, missing: str = ""
    ) -> Iterator[list[dict[str, Any]]]:
        """Go through a list page by page."""
        pages = self.api.pages(_path_of(path), query)
        while (page := self.asking(lambda: next(pages, None), missing)) is not None:
            yield page

    def every(self, *path: str, query: Query | None = None) -> list[dict[str, Any]]:
        """Return all of a list."""
        return [one for page in self.pages(*path, query=query) for one in page]

    def vhosts(self) -> list[str]:
        """Return the virtual hosts to look at: the one that is asked for, or all."""
        if self.vhost_asked is not None:
            return [self.vhost_asked]
        return [str(one["name"]) for one in self.get("vhosts")]

    def asking(self, ask: Callable[[], T], missing: str = "") -> T:
        """Ask the broker; raises Failure for what it refuses."""
        try:
            return ask()
        except ManagementError as error:
            raise _failure(error, missing) from None

    def optional(self, *path: str, query: Query | None = None, what: str, missing: str = "") -> Any:
        """Return what is at a path that brokers may not have.

        Raises:
            Failure: it has not, and `what` needs it; or as for `get`.
        """
        return self._optional(lambda: self.api.get(_path_of(path), query), what, missing)

    def change(
        self, method: str, *path: str, body: Any = None, query: Query | None = None, what: str
    ) -> bytes:
        """Change what brokers may not have; as `optional`, returns the content of the answer."""
        return self._optional(
            lambda: self.api.request(method, _path_of(path), query, body)[1], what
        )

    def _optional(self, ask: Callable[[], T], what: str, missing: str = "") -> T:
        try:
            return ask()
        except ManagementError as error:
            if _is_unknown_path(error):
                raise Failure(
                    f"the broker at {self.api.where} has no {what}: it is older, or RabbitMQ"
                ) from None
            raise _failure(error, missing) from None

    # ------------------------------------------------------------- acting

    @property
    def dry(self) -> bool:
        """Whether nothing may be changed."""
        return bool(getattr(self.options, "dry_run", False))

    def would(self, what: str) -> bool:
        """With `--dry-run`: say what would be done; returns whether it is not to be."""
        if self.dry:
            self.out.say(f"would {what}")
        return self.dry

    def confirmed(self, what: str, name: str) -> bool:
        """Ask before something is destroyed; returns whether to go on.

        Args:
            what: is destroyed: "delete queue 'q' in '/' with 3 messages".
            name: what somebody must type.

        Raises:
            WrongUse: nobody can be asked, and `--yes` was not given.
            Failure: something else was typed.
        """
        if self.would(what):
            return False
        if self.options.yes:
            return True
        if not sys.stdin.isatty():
            raise WrongUse(f"to {what}, give --yes: there is no terminal to ask")
        print(f"This will {one_line(what)}.", file=sys.stderr)
        print(f"Type {one_line(name)} to go on: ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().rstrip("\n") != name:
            raise Failure("that was not the name; nothing was changed")
        return True

    def did(self, what: str) -> None:
        """Say what was done, unless nobody wants to know."""
        self.out.say(what)


def _path_of(names: Sequence[str]) -> str:
    """Return the path of names; raises WrongUse for one that is empty.

    Without it the path would be that of a list, or of nothing.
    """
    if "" in names:
        raise WrongUse("a name is empty; the default exchange is amq.default")
    return path_of(*names)


def _is_unknown_path(error: ManagementError) -> bool:
    """Whether a refusal is about the path, and not about an object.

    Paths that nobody has are answered by the web server, without a reason of the broker's; that of
    RabbitMQ looks for a file of that name, which a percent-encoded slash cannot be in (400).
    """
    if error.status == METHOD_NOT_ALLOWED:
        return True
    said = error.reason not in ("", "Not Found", "Object Not Found")
    return error.status in (BAD_REQUEST, NOT_FOUND, NOT_ACCEPTABLE) and not said


def _failure(error: ManagementError, missing: str) -> Failure:
    # What AMQP's own rules refuse has its reply code in the reason of a 400.
    absent = error.status == NOT_FOUND or error.reason == NO_VHOST_OR_USER
    if absent or error.reason.startswith(AMQP_NOT_FOUND):
        return NotThere(f"there is no {missing}" if missing else str(error))
    if error.status in (UNAUTHORIZED, FORBIDDEN) or error.reason.startswith(AMQP_REFUSED):
        return Forbidden(str(error))
    return Failure(str(error))


def arguments_of(given: Sequence[str]) -> dict[str, Any]:
    """Read KEY=VALUE; a value that is JSON means that, any other is a text.

    Raises:
        WrongUse: there is no equals sign, or a key stands there twice.
    """
    import json

    found: dict[str, Any] = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not separator or not key:
            raise WrongUse(f"{text!r} is not KEY=VALUE")
        if key in found:
            raise WrongUse(f"{key!r} is given twice")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def run_verb(verb: Verb, options: argparse.Namespace) -> int:
    """Carry a verb out; returns the exit code. What goes wrong is one line on standard error."""
    session = Session(options)
    try:
        done = verb.run(session, options) or DONE
        sys.stdout.flush()
        return done
    except Failure as failure:
        return tell(failure)
    except BrokenPipeError:
        # Whoever read what we write has seen enough, as `head` does. Python would complain when
        # it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        session.close()
