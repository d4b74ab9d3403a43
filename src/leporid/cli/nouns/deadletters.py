"""`leporid deadletters`: how many messages died and why, looking at them, sending them back.

Invariant of sending back: a dead letter is acknowledged only after its copy was confirmed in a
queue. What is interrupted in between is in both places, and never in none.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from leporid.cli import amqp
from leporid.cli.cat import browsed, payload_of
from leporid.cli.command import Kind, Noun, Verb, argument
from leporid.cli.listing import show_rows
from leporid.cli.outcomes import FAILED, Failure, NotThere, WrongUse
from leporid.cli.output import columns_of, counted
from leporid.cli.session import AMQP_NOT_FOUND, Session

if TYPE_CHECKING:
    from leporid.load.amqp import Client, Got

COLUMNS: Final = ("vhost", "queue", "reason", "exchange", "routing_key", "messages", "dropped")
LOOK_COLUMNS: Final = ("died_in", "reason", "times", "exchange", "routing_key", "payload")
SHOWN_CHARACTERS: Final = 80
REASONS: Final = ("rejected", "expired", "maxlen", "delivery_limit")
QUEUE: Final = argument("queue", metavar="QUEUE", help="where the dead letters are")
REASON: Final = argument("--reason", choices=REASONS, help="only those that died for this")
COUNT_DEFAULT: Final = 20
USER_ID_REFUSED: Final = "user_id property"
"""What the brokers' refusals of another user's `user_id` have in common."""


def _list(session: Session, options: argparse.Namespace) -> None:
    of = [session.vhost_asked] if session.vhost_asked is not None else []
    rows = session.optional("dead-letters", *of, what="counts of dead letters")
    show_rows(session, rows, COLUMNS, "queue")


def death_of(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Return where a message died last, why and how often; empty if it never did."""
    deaths = headers.get("x-death")
    if not isinstance(deaths, list) or not deaths or not isinstance(deaths[0], Mapping):
        return {}
    last = deaths[0]
    keys = last.get("routing-keys")
    return {
        "died_in": last.get("queue"),
        "reason": last.get("reason"),
        "times": last.get("count"),
        "exchange": last.get("exchange"),
        "routing_key": keys[0] if isinstance(keys, list) and keys else "",
    }


def _look(session: Session, options: argparse.Namespace) -> None:
    path = "queues", session.vhost, options.queue
    rows: list[dict[str, Any]] = []
    for message in browsed(session, path, {}, None):
        headers = (message.get("properties") or {}).get("headers") or {}
        death = death_of(headers)
        if options.reason and death.get("reason") != options.reason:
            continue
        text = payload_of(message)[:SHOWN_CHARACTERS].decode(errors="backslashreplace")
        rows.append({**death, "payload": text})
        if len(rows) == options.count:
            break
    session.out.rows(rows, columns_of(options.columns, LOOK_COLUMNS), "died_in")


# ---------------------------------------------------------------- sending back


def target_of(got: Got, options: argparse.Namespace) -> tuple[str, str, bytes] | None:
    """Return exchange, key and properties for a dead letter; None: it stays.

    It goes to the queue in which it died, through the default exchange, unless the options say
    where to. A key that is not its own takes the place of those in `CC` as well, as that of a
    queue's dead letters does: these copies were made when it was published.
    """
    from leporid.amqp.properties import decode_properties, encode_properties

    properties, encoded = decode_properties(got.properties), got.properties
    headers = dict(properties.headers or {})
    death = death_of(headers)
    if options.reason and death.get("reason") != options.reason:
        return None
    if options.exchange is not None and options.key is None:
        return options.exchange, got.routing_key, encoded
    if headers.pop("CC", None) is not None:
        encoded = encode_properties(replace(properties, headers=headers))
    if options.exchange is not None:
        return options.exchange, options.key, encoded
    queue = death.get("died_in")
    return ("", str(queue), encoded) if queue else None


def _requeue(session: Session, options: argparse.Namespace) -> int | None:
    if options.key is not None and options.exchange is None:
        raise WrongUse("--key belongs to --exchange: give both")
    from leporid.load.amqp import Refused

    what = f"queue '{options.queue}' in '{session.vhost}'"
    where = f"to exchange '{options.exchange}'" if options.exchange is not None else "back"
    client = amqp.connected(session)
    sender = Sender(session)
    sent = Sent()
    try:
        # What comes back into this very queue meanwhile is not sent round and round.
        most = client.declare_queue(options.queue, passive=True)
        most = most if options.count is None else min(most, options.count)
        up_to = counted(most, "dead letter")
        if not session.confirmed(f"send up to {up_to} of {what} {where}", options.queue):
            return None
        _send(client, sender, options, most, sent)
        # What was not acknowledged goes back to its place when the connection ends.
        client.close()
    except Refused as refused:
        if str(refused).startswith(AMQP_NOT_FOUND):
            raise NotThere(str(refused)) from None
        done = counted(sent.back, "dead letter")
        raise Failure(f"the broker refused after {done}: {refused}") from None
    except OSError as error:
        done = counted(sent.back, "dead letter")
        raise Failure(f"lost the broker after {done}: {error.strerror or error}") from None
    finally:
        sender.close()
        client.sock.close()
    session.did(
        f"{counted(sent.back, 'dead letter')} sent {where}"
        + (f", {sent.nowhere} stay: no queue is there" if sent.nowhere else "")
        + (f", {sent.stayed} stay" if sent.stayed else "")
    )
    if sent.of_others:
        # What was done stands on standard output; this is why it is not all.
        users = ", ".join(f"'{one}'" for one in sorted(sender.refused))
        raise Failure(
            f"{sent.of_others} stay: their user_id is {users}, and only that user, or one with the "
            "tag impersonator, may publish them"
        )
    return FAILED if sent.nowhere else None


@dataclass(slots=True)
class Sent:
    """What became of dead letters: sent back, without a queue to go to, left where they are.

    Attributes:
        of_others: left, as only another user may publish them.
    """

    back: int = 0
    nowhere: int = 0
    stayed: int = 0
    of_others: int = 0


class Sender:
    """Publishes on a connection of its own.

    A refusal closes the channel, and what was taken from the queue on that channel goes back to it.

    Args:
        session: says where the broker is.

    Attributes:
        refused: the users whose messages the broker does not take from us.
    """

    def __init__(self, session: Session) -> None:
        self.refused: set[str] = set()
        self._session = session
        self._client: Client | None = None

    def send(self, target: tuple[str, str, bytes], body: bytes) -> bool | None:
        """Publish; returns whether it came into a queue, None if it is another user's.

        Raises:
            Refused: the broker does not take it, for another reason.
        """
        from leporid.amqp.properties import decode_properties
        from leporid.load.amqp import Refused

        user = decode_properties(target[2]).user_id
        if user in self.refused:
            return None
        if self._client is None:
            self._client = amqp.connected(self._session)
            self._client.select_confirm()
        try:
            return self._client.publish(*target, body)
        except Refused as refused:
            if user is None or USER_ID_REFUSED not in str(refused):
                raise
            self.refused.add(user)
            self.close()
            return None

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _send(
    client: Client, sender: Sender, options: argparse.Namespace, most: int, sent: Sent
) -> None:
    """Send dead letters back, of those that come first."""
    for _ in range(most):
        got = client.get(options.queue)
        if got is None:
            return
        target = target_of(got, options)
        if target is None:
            sent.stayed += 1
            continue
        came = sender.send(target, got.body)
        if came:
            client.acknowledge(got.delivery_tag)
            sent.back += 1
        elif came is None:
            sent.of_others += 1
        else:
            sent.nowhere += 1


NOUN: Final = Noun(
    "deadletters",
    (
        Verb("list", "count dead letters by queue and reason", _list, kind=Kind.LIST, vhost=True),
        Verb(
            "look",
            "show where and why the messages of a queue died",
            _look,
            (
                QUEUE,
                REASON,
                argument("--count", "-c", type=int, default=COUNT_DEFAULT, metavar="N",
                         help=f"messages at most ({COUNT_DEFAULT})"),
                argument("--columns", metavar="A,B"),
            ),
            vhost=True,
            completes="queues",
        ),
        Verb(
            "requeue",
            "send dead letters back to the queues in which they died",
            _requeue,
            (
                QUEUE,
                REASON,
                argument("--count", "-c", type=int, metavar="N", help="at most (all)"),
                argument("--exchange", metavar="X", help="send them there instead"),
                argument("--key", metavar="KEY", help="with this routing key (their own)"),
                amqp.OPTION,
            ),
            Kind.DESTROY,
            vhost=True,
            completes="queues",
        ),
    ),
)  # fmt: skip
