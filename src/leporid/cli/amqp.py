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


def address(session: Session) -> tuple[str, ssl.SSLContext | None, str]:
    """Return where AMQP is in the virtual host that the command means, and TLS as `tls_of` does.

    Raises:
        Failure: the broker does not say.
        WrongUse: what was given cannot be understood.
    """
    given = getattr(session.options, "amqp_url", None) or session.environment.get(URL_VARIABLE)
    return (given, *tls_of(given)) if given else (*_found(session), "")


def tls_of(url: str) -> tuple[ssl.SSLContext | None, str]:
    """Return what an `amqps` address says in its query: whom to trust, the certificate's name.

    The parameters are RabbitMQ's (`cacertfile`, `certfile`, `keyfile`, `verify`,
    `server_name_indication`). Of an address without TLS: None, "".

    Raises:
        WrongUse: a parameter cannot be understood, or a file cannot be used.
    """
    if urlsplit(url).scheme != "amqps":
        return None, ""
    # Not at the top: it takes longer than most commands.
    from leporid.client.errors import LocalProtocolError
    from leporid.client.settings import Settings

    try:
        found = Settings.from_url(url)
    except LocalProtocolError as error:
        raise WrongUse(str(error)) from None
    return found.tls, found.tls_name


def unreachable(place: str, error: OSError) -> Failure:
    """Return what to tell when nobody answers there, or TLS does not come about."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Failure(
            f"the certificate of {place} is not trusted: {error.verify_message} "
            "(?cacertfile=FILE in the address says whose are)"
        )
    if isinstance(error, ssl.SSLError):
        return Failure(f"no TLS with {place}: {error.reason or error}; is that a port with TLS?")
    return Failure(f"no broker at {place}: {error.strerror or error}")


def connected(session: Session) -> Client:
    """Return a connection in the virtual host that the command means.

    Raises:
        Failure: nobody lets us in there.
        WrongUse: the address is none.
    """
    from leporid.load.amqp import Client, Refused

    url, context, name = address(session)
    host = urlsplit(url).hostname or ""
    try:
        return Client(url, tls=context, tls_name=name)
    except OSError as error:  # that of a certificate is a ValueError, too
        raise unreachable(f"{host} over AMQP", error) from None
    except ValueError as error:
        raise WrongUse(str(error)) from None
    except Refused as refused:
        # Before the login a broker only closes the connection, which is its answer to a password.
        raise Forbidden(f"the broker at {host} does not let us in over AMQP: {refused}") from None


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
