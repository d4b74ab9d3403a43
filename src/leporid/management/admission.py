"""Admission: what a request may take of what all requests share, from its head to its answer's end.

Responsible for the cost that each route declares, for the shares of HTTP, and for refusing what
grows while the broker is low on memory or disk. Must not know routes, nor who a user is.

Invariants: a request holds one slot while it is under way, of its peer's address before login and
of its user after, unless its route is one that is always answered. What it takes beside that, it
gives back when its answer has ended, but for leases and sessions, which give theirs back when they
end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot, Share, Slot
from leporid.management.answer_turns import AnswerTurns
from leporid.management.refusals import blocked, of_no_slot

if TYPE_CHECKING:
    from leporid.broker.access.access import User

# Requests whose user is not known yet: they are about to begin, or wait for a password to be
# hashed. More wait.
LOGINS_MAX: Final = 64
# Requests of users. With those before login they are fewer than connections (server.http), so that
# there is always a connection for /health. None waits: in the line of an address, which many may
# share, it would be in front of others' requests.
REQUESTS_MAX: Final = 128
# Requests that look through messages, most of them for a table: each has one batch in memory,
# encoded and not. More wait.
TABLES_MAX: Final = 32
# Memory of batches that are being made, or sent to readers. A message of 128 MiB, which is there
# twice until it is encoded, has room while another one is sent.
TABLES_BYTES_MAX: Final = 448 * 1024 * 1024
# Pages of metrics of single objects, which nobody logs in for: each keeps a list of all of them.
SCRAPES_MAX: Final = 8
# Threads that encode tables. One core stays with the broker's own thread.
ENCODERS_MAX: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
# Pieces of work that these threads have: twice as many, so that one user alone, who gets half,
# keeps all of them busy.
ENCODING_MAX: Final = 2 * ENCODERS_MAX
# Requests that wait for a stream to grow. One user alone gets half, so that half of that user's
# requests are left for others.
LONG_POLLS_MAX: Final = 64
# Pages of the web UI, and others, that are told of each second; each keeps a connection. One user
# alone gets half.
LIVE_MAX: Final = 40
# Logins by the form of the web UI: a kilobyte each, or what a token's scopes take.
SESSIONS_MAX: Final = 1024
# Each keeps a timer, eight bytes a message, and its messages from everybody else.
LEASES_MAX: Final = 1000
# Bodies that are being received; their bytes have a share of their own.
UPLOADS_MAX: Final = 32
# Bytes of bodies that are received, worked on or shown, of all requests together; one user alone
# gets half, four tables of the largest size.
BODY_BYTES_MAX: Final = 256 * 1024 * 1024
# Tables that are taken apart and published: each is in memory decoded, too. More wait.
PUBLISHES_MAX: Final = 4
# Memory of tables that are being published, beside their bodies: two of the largest.
PUBLISHING_BYTES_MAX: Final = 256 * 1024 * 1024
# Filter classes that are tried out: each is a process that is being started.
TRIALS_MAX: Final = 2
# Documents of definitions that are read: one user alone has one at a time. One is imported at a
# time, which others wait for.
IMPORTS_MAX: Final = 2
# Objects that lists sort, or have sorted and are being shown, of all requests together: 150 bytes
# each. One user alone gets half. More wait; a list of more than there are waits until it is alone.
LIST_ITEMS_MAX: Final = 1_000_000
# Of all keys together that wait for one of those above of which more wait. Each is a request.
WAITING_MAX: Final = REQUESTS_MAX
# Clients give up after a minute, or less.
QUEUE_SECONDS: Final = 10


@dataclass(frozen=True)
class Cost:
    """What a route takes.

    Attributes:
        name: what kind of work it is.
        grows: whether it makes the broker keep more; refused while an alarm is on.
        limits: the shares that it may take of, beside the request itself.
    """

    name: str
    grows: bool = False
    limits: tuple[str, ...] = ()


# Answered always, at once, from running totals; nothing is looked up and nobody logs in.
PROBE: Final = Cost("probe")
# A bounded number of things is looked up, or of lists pieces are made.
LOOK: Final = Cost("look")
# A page that is made in pieces, for whoever asks.
SCRAPE: Final = Cost("scrape", limits=("http_scrapes",))
# Lists of which there may be many are sorted, a piece in each turn.
LIST: Final = Cost("list", limits=("http_list_items",))
# One message, in memory while it is shown.
SHOW: Final = Cost("show", limits=("http_body_bytes",))
# One event a second, until the client goes.
LIVE: Final = Cost("live", limits=("http_live",))
WAIT: Final = Cost("wait", limits=("http_long_polls",))
_TABLE: Final = ("http_tables", "http_tables_memory", "http_encoding")
TABLE: Final = Cost("table", limits=_TABLE)
# Messages are looked through, of which filters choose some to be listed.
SEARCH: Final = Cost("search", limits=("http_tables", "http_encoding"))
# Messages are looked through, of which some are in memory while they are shown.
BROWSE: Final = Cost("browse", limits=("http_tables", "http_encoding", "http_body_bytes"))
LEASE: Final = Cost("lease", limits=("http_leases", *_TABLE))
# A copy of all that is on disk, most of it in hard links. One is made at a time.
BACK_UP: Final = Cost("back up")
# One thing is turned on or off; also while an alarm is on, as that may be how it ends.
SWITCH: Final = Cost("switch")
# What is there goes; also while an alarm is on, as that is how it ends.
REMOVE: Final = Cost("remove")
# Many that go, which filters choose.
REMOVE_CHOSEN: Final = Cost("remove chosen", limits=("http_tables", "http_encoding"))
_BODY: Final = ("http_uploads", "http_body_bytes")
# What is there goes, as a body says.
ACT: Final = Cost("act", limits=_BODY)
DEFINE: Final = Cost("define", grows=True, limits=_BODY)
# Who may do what, and how much; also while an alarm is on, as somebody may have to be stopped.
ADMINISTER: Final = Cost("administer", limits=_BODY)
# The same, by a token of an issuer that the broker asks.
SIGN_ON: Final = Cost("sign on", limits=("http_sessions",))
LOG_IN: Final = Cost("log in", limits=(*_BODY, "http_sessions"))
# Also while an alarm is on: messages may wait for a class that works.
TRY: Final = Cost("try", limits=(*_BODY, "http_trials"))
# One message is published, from a body in JSON.
MESSAGE: Final = Cost("message", grows=True, limits=_BODY)
# Messages of a queue are published somewhere else, some at a time in memory.
MOVE: Final = Cost("move", grows=True, limits=(*_BODY, "http_tables", "http_encoding"))
# Messages are taken out of a queue, and are in memory while they are shown.
GET: Final = Cost("get", limits=_BODY)
# One message goes through a queue that is made for it.
ALIVE: Final = Cost("alive", grows=True)
# Definitions of any number are made, as a body says.
IMPORT: Final = Cost("import", grows=True, limits=(*_BODY, "http_imports"))
PUBLISH: Final = Cost(
    "publish",
    grows=True,
    limits=(*_BODY, "http_publishes", "http_encoding", "http_publishing_memory"),
)


class Shares:
    """What all requests share.

    Args:
        refusals: where refusals are counted.
        body_bytes: for bodies, of all requests together.
    """

    def __init__(self, refusals: Refusals, body_bytes: int) -> None:
        self.logins = Share("http_logins", LOGINS_MAX, refusals, WAITING_MAX)
        self.requests = Share("http_requests", REQUESTS_MAX, refusals)
        self.tables = Share("http_tables", TABLES_MAX, refusals, WAITING_MAX)
        self.tables_memory = Share("http_tables_memory", TABLES_BYTES_MAX, refusals, WAITING_MAX)
        self.encoding = Share("http_encoding", ENCODING_MAX, refusals, WAITING_MAX)
        self.long_polls = Share("http_long_polls", LONG_POLLS_MAX, refusals)
        self.live = Share("http_live", LIVE_MAX, refusals)
        self.sessions = Share("http_sessions", SESSIONS_MAX, refusals)
        self.leases = Share("http_leases", LEASES_MAX, refusals)
        self.uploads = Share("http_uploads", UPLOADS_MAX, refusals, WAITING_MAX)
        self.body_bytes = Share("http_body_bytes", body_bytes, refusals)
        self.publishes = Share("http_publishes", PUBLISHES_MAX, refusals, WAITING_MAX)
        self.publishing_memory = Share(
            "http_publishing_memory", PUBLISHING_BYTES_MAX, refusals, WAITING_MAX
        )
        self.scrapes = Share("http_scrapes", SCRAPES_MAX, refusals)
        self.list_items = Share("http_list_items", LIST_ITEMS_MAX, refusals, WAITING_MAX)
        self.trials = Share("http_trials", TRIALS_MAX, refusals, WAITING_MAX)
        self.imports = Share("http_imports", IMPORTS_MAX, refusals, WAITING_MAX)


class Admission:
    """Lets requests in.

    Args:
        refusals: where refusals are counted.
        alarms: those that are on.
        alarm_limits: their limits in bytes, by name, for the texts.
        body_bytes: for bodies, of all requests together; 0 for BODY_BYTES_MAX.
    """

    def __init__(
        self,
        refusals: Refusals,
        alarms: Collection[str] = (),
        alarm_limits: Mapping[str, int] | None = None,
        body_bytes: int = 0,
    ) -> None:
        self.refusals = refusals
        self.shares = Shares(refusals, body_bytes or BODY_BYTES_MAX)
        self.turns = AnswerTurns()
        self._alarms = alarms
        self._alarm_limits = alarm_limits or {}

    def __repr__(self) -> str:
        return f"<Admission requests={self.shares.requests.used}>"

    async def enter(self, cost: Cost, address: Hashable) -> Visit:
        """Begin a request of a peer that has not logged in.

        Raises:
            Refusal: too many are under way.
        """
        return Visit(self, cost, await waited_for(self.shares.logins, address))

    def check_growth(self) -> None:
        """Refuse what makes the broker keep more while it is low on memory or disk.

        Raises:
            Refusal: an alarm is on (503).
        """
        alarm = next(iter(sorted(self._alarms, reverse=True)), None)
        if alarm is not None:
            limit, value = f"{alarm}_alarm", self._alarm_limits.get(alarm)
            self.refusals.count(limit)
            raise blocked(alarm, limit, value)


class Visit:
    """One request that is under way; made by `Admission.enter`.

    Attributes:
        user: whose it is; None: nobody has logged in.
        deadline: when it ends, whatever it does; None: at no time.
    """

    def __init__(self, admission: Admission, cost: Cost, slot: Slot) -> None:
        self._admission = admission
        self._cost = cost
        self._slot = slot
        self.user: User | None = None
        self.deadline: asyncio.Timeout | None = None

    def log_in(self, user: User) -> None:
        """It is known whose request it is.

        Raises:
            Refusal: that user has too many under way; or the request would make the broker keep
                more, and an alarm is on.
        """
        self.user = user
        slot = taken(self._admission.shares.requests, user.name)
        self._slot.release()
        self._slot = slot
        if user.expires_ms is not None and self.deadline is not None:
            left_s = user.expires_ms / 1000 - time.time()
            self.deadline.reschedule(asyncio.get_running_loop().time() + left_s)
        if self._cost.grows:
            self._admission.check_growth()

    def end(self) -> None:
        """The answer has ended, in whatever way."""
        self._slot.release()


def taken(share: Share, key: Hashable, count: int = 1) -> Slot:
    """Take slots now; raises Refusal without."""
    try:
        return share.take(key, count)
    except NoSlot as none:
        raise of_no_slot(none) from None


async def waited_for(share: Share, key: Hashable, count: int = 1) -> Slot:
    """Take a slot, now or when it is this key's turn.

    Args:
        share: of what.
        key: for whom.
        count: how many; what is larger than all there is waits until it is alone, and has all.

    Raises:
        Refusal: too many wait already, or it took too long.
    """
    got: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()

    def begin(slot: Slot) -> None:
        if not got.done():  # else whoever waited is gone, and leaves in a moment
            got.set_result(slot)

    try:
        waiter = share.wait(key, begin, min(count, share.slots))
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                return await got
        except TimeoutError:
            raise waiter.give_up() from None
        except BaseException:
            waiter.leave()
            raise
    except NoSlot as none:
        raise of_no_slot(none) from None


@contextlib.asynccontextmanager
async def holding(share: Share, key: Hashable) -> AsyncIterator[None]:
    """Wait for a slot, and hold it for the block; raises as `waited_for`."""
    slot = await waited_for(share, key)
    try:
        yield
    finally:
        slot.release()
