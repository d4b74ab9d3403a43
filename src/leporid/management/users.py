"""Users over HTTP: RabbitMQ's routes, answers and refusals.

Responsible for the routes of users, and for who asks. Must not know what a permission allows.
Invariants: a password never stands in an answer or in the log, a hash only in an administrator's
answer; a password is hashed on the threads that hash for logins, never on the loop; an answer that
something has changed leaves only when that is on disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import JSONResponse, Response

from leporid.broker.access.passwords import (
    ALGORITHMS,
    MD5,
    RABBITMQ_SALT_BYTES,
    SALT_BYTES,
    NoPassword,
    PasswordHashError,
    algorithm_of,
    hash_password,
    parse_hash,
    salted_sha256,
)
from leporid.broker.definitions.passwords import PASSWORD_BYTES_MAX
from leporid.limits.shares import NoSlot
from leporid.management.authorization import administrator, manager, not_found
from leporid.management.paging import Lists, Table
from leporid.management.parameters import object_of, raw_body_of, text_in
from leporid.management.paths import name_of, takes
from leporid.management.refusals import bad_request, of_no_slot

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.access.passwords import StoredPassword
    from leporid.broker.access.users import Users
    from leporid.management.surroundings import Surroundings

NAME_BYTES_MAX: Final = 255
"""Of names of users, tags and virtual hosts: as AMQP's short strings."""
TAGS_MAX: Final = 64


class UserRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        table: Table[User] = Table(
            {"name": lambda user: user.name}, lambda user: (user.name,), shown
        )
        self._lists = Lists(around, table, lambda user: user.name)

    @property
    def _users(self) -> Users:
        return self._around.broker.users

    async def whoami(self, request: Request) -> Response:
        """GET /api/whoami."""
        user = await manager(self._around, request)
        return JSONResponse({"name": user.name, "tags": list(user.tags)})

    async def hash_password(self, request: Request) -> Response:
        """GET /api/auth/hash_password/{password}: as RabbitMQ would hash it."""
        await administrator(self._around, request)
        salt = self._around.broker.random_bytes(RABBITMQ_SALT_BYTES)
        return JSONResponse({"ok": salted_sha256(name_of(request, "password"), salt).text})

    async def listing(self, request: Request) -> Response:
        """GET /api/users."""
        return await self._list(request, lambda user: True)

    async def without_permissions(self, request: Request) -> Response:
        """GET /api/users/without-permissions: those that may enter no virtual host."""
        return await self._list(request, lambda user: not user.permissions)

    async def _list(self, request: Request, wanted: Callable[[User], bool]) -> Response:
        asking = await administrator(self._around, request)
        users = tuple(self._users.access)
        found = (each if wanted(each) else None for each in users)
        return await self._lists.answer(request, asking, found, len(users))

    async def show(self, request: Request) -> Response:
        """GET /api/users/{name}."""
        await administrator(self._around, request)
        found = self._users.access.user(name_of(request, "name"))
        if found is None:
            raise not_found()
        return JSONResponse(shown(found))

    @takes(
        {
            "tags": {"type": "string", "required": True},
            "password": {"type": "string"},
            "password_hash": {"type": "string"},
            "hashing_algorithm": {"type": "string", "enum": list(ALGORITHMS)},
        }
    )
    async def put(self, request: Request) -> Response:
        """PUT /api/users/{name}: 201 when the user is new, 204 when there was one."""
        around = self._around
        asking = await administrator(around, request)
        name = new_name(name_of(request, "name"))
        data = await raw_body_of(around.admission, request, asking)
        given = object_of(around.admission, data)
        if "tags" not in given:
            raise bad_request("tags_not_present")
        tags = tags_of(given["tags"])
        password = await self._password(asking, given)
        around.check_unchanged(asking)
        new = self._users.put(name, password, tags)
        await around.recorded(asking)
        return Response(status_code=201 if new else 204)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/users/{name}: connections of the user are closed."""
        asking, name = await administrator(self._around, request), name_of(request, "name")
        if self._users.access.user(name) is None:
            raise not_found()
        self._users.drop(name)
        await self._around.recorded(asking)
        return Response(status_code=204)

    @takes({"users": {"type": "array", "items": {"type": "string"}, "required": True}})
    async def delete_several(self, request: Request) -> Response:
        """POST /api/users/bulk-delete: all of them, or none if one is missing."""
        around = self._around
        asking = await administrator(around, request)
        data = await raw_body_of(around.admission, request, asking)
        around.check_unchanged(asking)
        names = object_of(around.admission, data, ("users",))["users"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise bad_request("users should be a list of names")
        for name in names:
            if self._users.access.user(name) is None:
                raise bad_request(f"no_such_user: {name}")
        for name in dict.fromkeys(names):
            self._users.drop(name)
        await around.recorded(asking)
        return Response(status_code=204)

    async def _password(self, asking: User, given: dict[str, Any]) -> StoredPassword:
        """Return what is kept of a password: as it was hashed by whoever asks, or by us."""
        if "password" in given and "password_hash" in given:
            raise bad_request("both_password_and_password_hash_are_provided")
        if "password_hash" in given:
            return _given_hash(given)
        if not given.get("password", ""):
            return NoPassword()
        password = text_in(given, "password", PASSWORD_BYTES_MAX)
        return await hashed(self._around, asking, password)


async def hashed(
    around: Surroundings, asking: User, password: str, kept: User | None = None
) -> StoredPassword:
    """Hash a password on a thread, when it is the turn of who sets it.

    Args:
        around: the broker.
        asking: who sets it.
        password: in clear.
        kept: who may have it already; then it stays as it is kept.
    """
    broker = around.broker
    salt = broker.random_bytes(SALT_BYTES)
    ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    made: list[StoredPassword] = []

    def work() -> None:
        same = kept is not None and kept.password.matches(password.encode())
        made.append(kept.password if kept is not None and same else hash_password(password, salt))

    def done() -> None:
        if not ended.done():
            ended.set_result(None)

    try:
        waiter = broker.logins.hash(asking.name, work, done)
    except NoSlot as none:
        raise of_no_slot(none) from None
    try:
        await ended
    finally:
        waiter.leave()
    return made[0]


def shown(user: User) -> dict[str, Any]:
    """Return what administrators see of a user, as RabbitMQ writes it."""
    return {
        "name": user.name,
        "password_hash": user.password.text,
        "hashing_algorithm": algorithm_of(user.password),
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def new_name(name: str) -> str:
    """Check a name that something is to have; raises Refusal."""
    if not 0 < len(name.encode()) <= NAME_BYTES_MAX:
        raise bad_request(f"a name has 1 to {NAME_BYTES_MAX} bytes")
    return name


def tags_of(value: Any) -> list[str]:
    """Read tags: a list, or a text with commas; raises Refusal."""
    tags = value.split(",") if isinstance(value, str) else value
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise bad_request("tags should be a list, or a string with commas")
    found = [tag.strip() for each in tags for tag in each.split(",")]
    found = list(dict.fromkeys(filter(None, found)))
    if len(found) > TAGS_MAX:
        raise bad_request(f"{len(found)} tags; at most {TAGS_MAX} are allowed")
    return [text_in({"tag": tag}, "tag", NAME_BYTES_MAX) for tag in found]


def _given_hash(given: dict[str, Any]) -> StoredPassword:
    text, algorithm = text_in(given, "password_hash"), given.get("hashing_algorithm")
    if not text:
        return NoPassword()
    if algorithm is not None and algorithm not in (*ALGORITHMS, MD5):
        known = ", ".join(ALGORITHMS)
        raise bad_request(f"unknown hashing_algorithm: there are {known}")
    try:
        found = parse_hash(text)
    except PasswordHashError as error:
        raise bad_request(f"password_hash {error}") from None
    if algorithm is not None and algorithm != algorithm_of(found):
        raise bad_request(f"password_hash is of {algorithm_of(found)}, not of {algorithm}")
    return found
