"""A connection over AMQP to the broker that a command means.

Responsible for where that is: an option, a variable, or the port that the management API names.
Must not know what is done over it. Invariant: a password that goes to the management API over TLS
is not sent over AMQP without it, unless to this machine, or to where an option or variable says.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from leporid.cli.command import argument
from leporid.cli.contexts import password_of
from leporid.cli.outcomes import Failure, Forbidden, WrongUse

if TYPE_CHECKING:
    from leporid.cli.session import Session
    from leporid.load.amqp import Client

URL_VARIABLE: Final = "LEPORID_AMQP_URL"
OPTION: Final = argument(
    "--amqp-url", metavar="URL", help=f"the broker's AMQP port ({URL_VARIABLE}, or as it says)"
)
EVERYWHERE: Final = ("0.0.0.0", "::")
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def address(session: Session) -> tuple[str, ssl.SSLContext | None]:
    """Return where AMQP is in the virtual host that the command means, with TLS or without.

    Raises:
        Failure: the broker does not say.
    """
    given = getattr(session.options, "amqp_url", None) or session.environment.get(URL_VARIABLE)
    url, context = (given, None) if given else _found(session)
    if urlsplit(url).scheme == "amqps":
        url, context = "amqp" + url.removeprefix("amqps"), ssl.create_default_context()
    return url, context


def connected(session: Session) -> Client:
    """Return a connection in the virtual host that the command means.

    Raises:
        Failure: nobody lets us in there.
        WrongUse: the address is none.
    """
    from leporid.load.amqp import Client, Refused

    url, context = address(session)
    host = urlsplit(url).hostname or ""
    try:
        return Client(url, tls=context, tls_name=host if context else "")
    except ValueError as error:
        raise WrongUse(str(error)) from None
    except Refused as refused:
        # Before the login a broker only closes the connection, which is its answer to a password.
        raise Forbidden(f"the broker at {host} does not let us in over AMQP: {refused}") from None
    except OSError as error:
        raise Failure(f"no broker at {host} over AMQP: {error.strerror or error}") from None


def _found(session: Session) -> tuple[str, ssl.SSLContext | None]:
    """Return where the management API says that AMQP is, as the user of the context."""
    listeners = session.get("overview").get("listeners", [])
    parts = urlsplit(session.context.url)
    for protocol in ("amqp", "amqp/ssl"):
        for one in listeners:
            if one.get("protocol") != protocol:
                continue
            near = one["ip_address"] in (*EVERYWHERE, *LOOPBACK)
            host = parts.hostname or "" if near else one["ip_address"]
            if protocol == "amqp" and parts.scheme == "https" and host not in LOOPBACK:
                continue
            context = ssl.create_default_context() if protocol == "amqp/ssl" else None
            if context is not None and session.context.ca_file:
                context.load_verify_locations(session.context.ca_file)
            login = ":".join(
                quote(text, safe="")
                for text in (
                    session.context.user,
                    password_of(session.context, session.environment),
                )
            )
            where = f"[{host}]" if ":" in host else host
            vhost = quote(session.vhost, safe="")
            return f"amqp://{login}@{where}:{one['port']}/{vhost}", context
    kind = "AMQP port with TLS" if parts.scheme == "https" else "AMQP port"
    raise Failure(f"the broker at {session.api.where} names no {kind}: give --amqp-url")
