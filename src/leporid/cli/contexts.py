"""Which broker a command speaks to: named contexts, options, the environment, in that order.

Responsible for the file of contexts and for choosing one address. Must not ask a broker anything.
Invariants: the file is its owner's alone (0600) from the moment it is there, and is replaced as a
whole; no message and no listing has a password.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from leporid.cli.outcomes import Failure, NotThere, WrongUse
from leporid.client.management import Address

URL_VARIABLE: Final = "LEPORID_URL"
USER_VARIABLE: Final = "LEPORID_USER"
PASSWORD_VARIABLE: Final = "LEPORID_PASSWORD"  # noqa: S105 - a name
CONTEXT_VARIABLE: Final = "LEPORID_CONTEXT"
URL_DEFAULT: Final = "http://localhost:15672"
GUEST: Final = "guest"
URL_FORM: Final = "http://[USER[:PASSWORD]@]HOST:PORT, or https://…"
PASSWORD_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Context:
    """One broker, as a user named it.

    Attributes:
        url: without a user.
        password: kept in the file; "" if it is not.
        password_file: where it is instead; "" for nowhere.
        password_env: the variable that it is in instead; "" for none.
        vhost: that commands mean which name none.
        ca_file: certificates to trust, "" for the system's.
    """

    url: str
    user: str = GUEST
    password: str = dataclasses.field(default="", repr=False)
    password_file: str = ""
    password_env: str = ""
    vhost: str = "/"
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts of a user.

    Attributes:
        by_name: them.
        current: the name of the one that commands mean which name none; "" for none.
    """

    by_name: Mapping[str, Context] = dataclasses.field(default_factory=dict)
    current: str = ""

    def find(self, name: str) -> Context:
        """Return a context; raises NotThere."""
        try:
            return self.by_name[name]
        except KeyError:
            known = ", ".join(sorted(self.by_name)) or "none"
            raise NotThere(
                f"no context '{name}'; there are: {known} (leporid context add NAME URL)"
            ) from None


def file_of_contexts(environment: Mapping[str, str]) -> Path:
    """Return where the file is (XDG base directories, 0.8)."""
    config = environment.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path.home() / ".config"
    return base / "leporid" / "contexts.json"


def load(file: Path) -> Contexts:
    """Read the contexts; a file that is not there has none.

    Raises:
        Failure: it cannot be read, or is not as `save` writes it.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        by_name = {name: Context(**each) for name, each in found["contexts"].items()}
        return Contexts(by_name, str(found.get("current", "")))
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Failure(f"{file}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Failure(f"{file}: is not a file of contexts; correct or remove it") from None


def save(file: Path, contexts: Contexts) -> None:
    """Write the contexts, readable for their owner alone; raises Failure."""
    shown = {
        "current": contexts.current,
        "contexts": {name: dataclasses.asdict(one) for name, one in contexts.by_name.items()},
    }
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # mkstemp makes files with mode 0600.
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=".contexts-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(shown, out, indent=2)
                out.write("\n")
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise Failure(f"{file}: cannot be written: {error.strerror}") from None


def parse_url(url: str) -> tuple[str, str, str]:
    """Return an address without its user, the user and the password ("" for each that is not).

    Raises:
        WrongUse: it is no address of an HTTP API. It is not repeated: a password may be in it.
    """
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongUse(f"the broker's address is not of the form {URL_FORM}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        hint = "; amqp:// is of another port" if parts.scheme.startswith("amqp") else ""
        raise WrongUse(f"the broker's address is not of the form {URL_FORM}{hint}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    # Many write the address of the API, which is below that of the broker.
    path = parts.path.rstrip("/").removesuffix("/api")
    bare = urlunsplit((parts.scheme, place, path, "", ""))
    return bare, unquote(parts.username or ""), unquote(parts.password or "")


def chosen(
    options: argparse.Namespace, environment: Mapping[str, str], contexts: Contexts
) -> Context:
    """Return what the options, else the environment, else the contexts say.

    `--url` wins over `--context`, that over LEPORID_URL, that over LEPORID_CONTEXT, and that over
    the current context. User and password of options and environment win over those of an address.

    Raises:
        WrongUse: the options contradict each other, or an address is none.
        NotThere: there is no such context.
    """
    if options.url and options.context:
        raise WrongUse("give --url or --context, not both")
    name = options.context
    url = options.url or ("" if name else environment.get(URL_VARIABLE, ""))
    if not url:
        name = name or environment.get(CONTEXT_VARIABLE) or contexts.current
    if name:
        # The environment's user is for its own address.
        return _with_login(contexts.find(name), options, {})
    return _with_login(of_url(url or URL_DEFAULT), options, environment)


def of_url(url: str) -> Context:
    """Return a context of an address; as guest if it names nobody."""
    bare, user, password = parse_url(url)
    return Context(bare, user or GUEST, password or ("" if user else GUEST))


def _with_login(
    base: Context, options: argparse.Namespace, environment: Mapping[str, str]
) -> Context:
    changes: dict[str, Any] = {}
    if options.ca_file:
        changes["ca_file"] = str(options.ca_file)
    user = options.user or environment.get(USER_VARIABLE)
    if user and user != base.user:
        # The password was somebody else's.
        changes |= {"user": user, "password": "", "password_file": "", "password_env": ""}
    if options.password_file:
        changes |= {"password": "", "password_file": str(options.password_file)}
    elif options.password_env:
        changes |= {"password": "", "password_file": "", "password_env": options.password_env}
    elif environment.get(PASSWORD_VARIABLE):
        changes |= {"password": environment[PASSWORD_VARIABLE]}
    return dataclasses.replace(base, **changes)


def address_of(context: Context, environment: Mapping[str, str]) -> Address:
    """Return where and as whom to ask, with the password from where it is.

    Raises:
        Failure: the password, or the file of certificates, cannot be read.
    """
    if context.ca_file and not Path(context.ca_file).is_file():
        raise Failure(f"{context.ca_file}: no such file of certificates (--ca-file)")
    ca_file = Path(context.ca_file) if context.ca_file else None
    return Address(context.url, context.user, password_of(context, environment), ca_file)


def password_of(context: Context, environment: Mapping[str, str]) -> str:
    """Return the password of a context; raises Failure if it cannot be read."""
    if context.password_file:
        return read_password(Path(context.password_file))
    if context.password_env:
        if context.password_env not in environment:
            raise Failure(f"the variable {context.password_env} with the password is not set")
        return environment[context.password_env]
    return context.password


def read_password(file: Path) -> str:
    """Return the text of a file without the end of its last line; raises Failure."""
    try:
        with file.expanduser().open("rb") as source:
            text = source.read(PASSWORD_BYTES_MAX + 1)
        if len(text) > PASSWORD_BYTES_MAX:
            raise Failure(f"{file}: more than {PASSWORD_BYTES_MAX} bytes is no password")
        return text.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise Failure(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"{file}: is not UTF-8 text") from None
