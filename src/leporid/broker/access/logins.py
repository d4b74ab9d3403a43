"""Logins that wait for a password to be hashed: whose turn it is, and who is turned away.

Responsible for sharing the few hashes that can be made at a time among all peers, of AMQP and of
HTTP, and those who set passwords. Must not know threads, sockets or what a peer speaks: `offload`
runs what takes long.

Addresses take turns by the rule of `Share`, and at one address the claimed user names do. So a peer
waits for one hash of each other address (and name) at most, however many logins these have waiting.
Where an address has no place to wait any more, the name that has most gives one up to the others.
The same claim from one address is hashed once, for all who make it meanwhile. They are answered in
steps: to refuse 538 of them in one piece took 140 ms.

Invariants: at most HASHING_MAX hashes are made at a time; at most WAITING_MAX claims wait; each
login is answered once, unless it leaves before; whoever leaves costs no hash that was not begun.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import AccessRefused
from leporid.broker.access.access import login_refused
from leporid.limits.shares import NoSlot, Share, Slot, Waiter

if TYPE_CHECKING:
    from leporid.broker.access.access import Access
    from leporid.broker.access.sasl import Credentials
    from leporid.engine.bounds.jobs import Jobs
    from leporid.limits.refusals import Refusals

logger = logging.getLogger(__name__)

# Runs the first callable where it may block, then the second on the loop's thread.
Offload = Callable[[Callable[[], None], Callable[[], None]], None]

NAME: Final = "password_hashes"
"""As refusals name the limit."""

# Passwords being hashed at a time: each takes a core and 19 MiB for tens of milliseconds. One
# address has one of them, by the rule of `Share`.
HASHING_MAX: Final = 2
# One address alone has half. The last of these is hashed before the handshake's deadline of 10 s,
# at 75 ms for a hash. Each keeps what was claimed, up to 16 KiB.
WAITING_MAX: Final = 256


_Key = tuple[Hashable, str, bytes]


class TooManyLogins(AccessRefused):
    """So many logins wait that this one is refused without a look at it.

    Attributes:
        own: whether the peer's own address has so many waiting, and others could wait.
        why: a sentence that names the limit and its value.
    """

    def __init__(self, credentials: Credentials, *, own: bool) -> None:
        super().__init__(login_refused(credentials.mechanism), connection=True)
        self.own = own
        whose = "of your address" if own else "of all addresses"
        self.why = (
            f"too many logins {whose} wait for their passwords to be hashed ({NAME}: at most "
            f"{WAITING_MAX} may wait); try again later"
        )


Answered = Callable[[TooManyLogins | None], None]


class Login:
    """One login that waits.

    Args:
        credentials: what is claimed.
        loopback: whether the peer is of this machine.
        answered: called once: with None when `Access.admit` is to be asked, or with the refusal.
    """

    __slots__ = ("_answered", "claim", "credentials", "loopback")

    def __init__(self, credentials: Credentials, *, loopback: bool, answered: Answered) -> None:
        self.credentials = credentials
        self.loopback = loopback
        self._answered = answered
        self.claim: _Claim | None = None

    def leave(self) -> None:
        """Give the place up, because the peer is gone; after the answer, nothing happens."""
        claim, self.claim = self.claim, None
        if claim is not None:
            claim.leave(self)

    def answer(self, refusal: TooManyLogins | None) -> None:
        """Say how it went; for `Logins`."""
        self.claim = None
        try:
            self._answered(refusal)
        except Exception:
            # Others wait behind it.
            logger.exception("defect: the answer to a login failed")


class Logins:
    """The logins of one broker.

    Args:
        access: the users.
        offload: where passwords are hashed; HASHING_MAX at a time are given to it.
        refusals: where refusals are counted.
        jobs: those of the engine.
    """

    def __init__(self, access: Access, offload: Offload, refusals: Refusals, jobs: Jobs) -> None:
        self._access = access
        self._offload = offload
        self._jobs = jobs
        self._share = Share(NAME, HASHING_MAX, refusals, WAITING_MAX)
        # What waits, by address.
        self._lines: dict[Hashable, _Line] = {}
        # What waits, and what is hashed.
        self._claims: dict[_Key, _Claim] = {}
        self._turning_away = False

    def __repr__(self) -> str:
        return f"<Logins waiting={self.waiting} hashing={self._share.used}>"

    @property
    def waiting(self) -> int:
        """How many claims wait for a hash."""
        return self._share.waiting

    def begin(
        self, credentials: Credentials, address: Hashable, *, loopback: bool, answered: Answered
    ) -> Login | None:
        """Have a login checked; None if `Access.admit` can be asked now.

        Args:
            credentials: what is claimed.
            address: whom the peer shares its turns with, as `address_key` says.
            loopback: whether the peer is of this machine.
            answered: as for `Login`; may be called before this returns.

        Raises:
            TooManyLogins: as many wait as may.
        """
        if not self._access.needs_hashing(credentials, loopback):
            return None
        login = Login(credentials, loopback=loopback, answered=answered)
        key = (address, credentials.username, credentials.password)
        claim = self._claims.get(key)
        if claim is None:
            claim = _Claim(key, credentials, self._forget)
            claim.join(login)
            self._wait(claim)
        else:
            claim.join(login)
        return login

    def hash(self, key: Hashable, work: Callable[[], None], done: Callable[[], None]) -> Waiter:
        """Have a password hashed that somebody sets, when it is the turn of a key.

        Args:
            key: who sets it.
            work: hashes it; runs where it may block.
            done: called after it.

        Raises:
            NoSlot: as many wait as may.
        """

        def begin(slot: Slot) -> None:
            def finished() -> None:
                slot.release()
                done()

            self._offload(work, finished)

        return self._share.wait(key, begin)

    def _wait(self, claim: _Claim) -> None:
        line = self._lines.setdefault(claim.address, _Line())
        line.add(claim)
        self._claims[claim.key] = claim
        try:
            # The slot is for whose turn it is at this address then.
            waiter = self._share.wait(claim.address, lambda slot: self._begin(line, slot))
        except NoSlot as none:
            # The line has one claim more than places.
            last = line.last_of_most(claim)
            self._take_out(last, line)
            refusal = TooManyLogins(last.credentials, own=none.own)
            self._say_so(refusal)
            if last is claim:
                raise refusal from None
            self._jobs.start(last.answer(refusal))
            return
        if waiter.slot is None:
            line.places.append(waiter)

    def _begin(self, line: _Line, slot: Slot) -> None:
        if line.places:  # else there was no need to wait for this slot
            line.places.popleft()
        if not self._share.waiting:
            self._turning_away = False
        claim = line.next()
        self._take_out(claim, line)
        # Meanwhile, the same may have been hashed for another address.
        if any(self._access.needs_hashing(claim.credentials, each) for each in claim.loopback):
            self._hash(claim, slot)
        else:
            slot.release()
            self._jobs.start(claim.answer(None))

    def _hash(self, claim: _Claim, slot: Slot) -> None:
        # Whoever says the same meanwhile gets the same answer.
        self._claims[claim.key] = claim

        def verify() -> None:
            self._access.verify(claim.credentials)

        def verified() -> None:
            del self._claims[claim.key]
            slot.release()
            self._jobs.start(claim.answer(None))

        self._offload(verify, verified)

    def _take_out(self, claim: _Claim, line: _Line) -> None:
        del self._claims[claim.key]
        line.remove(claim)
        if not line:
            del self._lines[claim.address]

    def _forget(self, claim: _Claim) -> None:
        """Nobody waits for it any more; what is being hashed cannot be called back."""
        line = self._lines.get(claim.address)
        if line is not None and claim in line:
            self._take_out(claim, line)
            line.places.pop().leave()

    def _say_so(self, refusal: TooManyLogins) -> None:
        """Once until nobody waits: whoever asks may ask without end."""
        if not self._turning_away:
            self._turning_away = True
            logger.warning("logins are turned away: %s", refusal.why)


class _Claim:
    """A name and a password, and the logins at one address that claim them."""

    __slots__ = ("_forget", "credentials", "key", "logins")

    def __init__(
        self, key: _Key, credentials: Credentials, forget: Callable[[_Claim], None]
    ) -> None:
        self.key = key
        self.credentials = credentials
        self.logins: OrderedDict[Login, None] = OrderedDict()
        self._forget = forget

    @property
    def address(self) -> Hashable:
        return self.key[0]

    @property
    def loopback(self) -> set[bool]:
        """Whether its peers are of this machine; of those behind a proxy, some may be."""
        return {login.loopback for login in self.logins}

    def join(self, login: Login) -> None:
        self.logins[login] = None
        login.claim = self

    def leave(self, login: Login) -> None:
        del self.logins[login]
        if not self.logins:
            self._forget(self)

    def answer(self, refusal: TooManyLogins | None) -> Iterator[None]:
        """Answer the logins, one a step."""
        while self.logins:
            login, _ = self.logins.popitem(last=False)
            login.answer(refusal)
            yield


class _Line:
    """The claims that wait at one address, in a line for each name, and these take turns.

    Attributes:
        places: as many as claims, from the oldest on; whose turn it is gets the oldest.
    """

    __slots__ = ("_names", "places")

    def __init__(self) -> None:
        self.places: deque[Waiter] = deque()
        self._names: OrderedDict[str, OrderedDict[_Claim, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._names)

    def __contains__(self, claim: _Claim) -> bool:
        return claim in self._names.get(claim.credentials.username, ())

    def add(self, claim: _Claim) -> None:
        self._names.setdefault(claim.credentials.username, OrderedDict())[claim] = None

    def remove(self, claim: _Claim) -> None:
        name = claim.credentials.username
        line = self._names[name]
        del line[claim]
        if not line:
            del self._names[name]

    def next(self) -> _Claim:
        """Return the first claim of the name whose turn it is; the name's next turn is last."""
        name, line = next(iter(self._names.items()))
        self._names.move_to_end(name)
        return next(iter(line))

    def last_of_most(self, newest: _Claim) -> _Claim:
        """Return the last claim of the name that has most: `newest` unless another has more."""
        own = self._names[newest.credentials.username]
        most = max(self._names.values(), key=len)
        return next(reversed(most)) if len(most) > len(own) else newest
