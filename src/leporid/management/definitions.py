"""Definitions over HTTP: all of a broker, or of a virtual host, as one document.

Responsible for these routes, and for who asks. Must not know what a definition looks like, nor how
it is put in force (`broker.definitions`). Invariants: the answer to an import leaves when all of it
is in force and on disk; a document that is refused has changed nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from leporid.broker.access.tags import is_administrator
from leporid.broker.definitions import document as documents
from leporid.broker.definitions.document import Document, DocumentError, DocumentTooLarge
from leporid.broker.definitions.exporting import exported, exported_of
from leporid.broker.definitions.importing import importing
from leporid.broker.definitions.passwords import in_clear, put_hash
from leporid.broker.definitions.plan import DefinitionsRefused
from leporid.management.admission import holding
from leporid.management.authorization import administrator, manager, not_authorised
from leporid.management.bodies import body_in
from leporid.management.multipart import is_form, part_in
from leporid.management.overview import RABBITMQ_VERSION
from leporid.management.parameters import flag_of
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal, bad_request, too_large
from leporid.management.users import hashed

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.broker.definitions.plan import Plan
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.management.surroundings import Surroundings

FILE: Final = b"file"
"""What RabbitMQ's page calls the file in its form."""
DOCUMENT: Final = {noun: {"type": "array", "items": {"type": "object"}} for noun in documents.NOUNS}
"""What a document has, for the OpenAPI document."""
# A token of RFC 9110, 5.6.2: nothing of it ends the header.
_TOKEN: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,255}")


class DefinitionRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    # ------------------------------------------------------------- out

    @takes(download={"type": "string"})
    async def export(self, request: Request) -> Response:
        """GET /api/definitions: everything; with `?download=NAME`, as a file of that name."""
        user = await administrator(self._around, request)
        return self._exported(request, user, exported(self._around.broker))

    @takes(download={"type": "string"})
    async def export_vhost(self, request: Request) -> Response:
        """GET /api/definitions/{vhost}: what belongs to a virtual host."""
        user, vhost = await self._enter(request)
        return self._exported(request, user, exported_of(vhost))

    def _exported(self, request: Request, user: User, found: dict[str, Any]) -> Response:
        identity = self._around.broker.identity
        shown = {
            "rabbit_version": RABBITMQ_VERSION,
            "rabbitmq_version": RABBITMQ_VERSION,
            "product_name": identity["product"],
            "product_version": identity.get("version", ""),
            **found,
        }
        name = request.query_params.get("download")
        if name is None:
            return self._around.listing(user, shown)
        if not _TOKEN.fullmatch(name):
            raise bad_request("download is no name of a file")
        header = (b"content-disposition", f"attachment; filename={name}".encode())
        return self._around.listing(user, shown, headers=(header,))

    # ------------------------------------------------------------- in

    @takes(DOCUMENT, dry_run={"type": "boolean"})
    async def put(self, request: Request) -> Response:
        """POST /api/definitions: all of a document, or nothing of it.

        204 when all of it is in force; 200 with what is not, and with the difference, if something
        is there otherwise and stays, or has no effect. With `?dry_run=true` the difference is
        answered and nothing is changed.
        """
        user = await administrator(self._around, request)
        return await self._import(request, user, None)

    @takes(DOCUMENT, dry_run={"type": "boolean"})
    async def put_vhost(self, request: Request) -> Response:
        """POST /api/definitions/{vhost}: the same, of what belongs to a virtual host."""
        user, vhost = await self._enter(request)
        return await self._import(request, user, vhost)

    async def _enter(self, request: Request) -> tuple[User, VirtualHost]:
        user = await manager(self._around, request)
        if not is_administrator(user):
            raise not_authorised("Not administrator user")
        vhost = self._around.broker.vhosts.get(name_of(request, "vhost"))
        if vhost is None and request.method == "GET":
            raise bad_request("vhost_not_found")
        if vhost is None:
            raise Refusal(404, "not_found", "vhost_not_found")
        return user, vhost

    async def _import(self, request: Request, user: User, vhost: VirtualHost | None) -> Response:
        around = self._around
        trial = flag_of(request, "dry_run")
        shares, broker = around.admission.shares, around.broker
        async with holding(shares.imports, user.name):
            try:
                document = await self._document(request, user)
                for item, password in in_clear(document):
                    kept = broker.access.user(str(item.get("name")))
                    put_hash(item, await hashed(around, user, password, kept))
                around.check_unchanged(user)
                plan = await around.job(lambda: self._importing(document, user, vhost, trial=trial))
            except DocumentTooLarge as large:
                around.admission.refusals.count(large.limit)
                raise too_large(large.limit, large.value, str(large)) from None
            except DocumentError as error:
                raise bad_request(f"failed_to_parse_json: {error}") from None
            except DefinitionsRefused as refused:
                raise bad_request(str(refused)) from None
            difference = plan.difference
            if trial:
                return around.listing(user, {"dry_run": True, **difference.shown()})
            await around.recorded(user)
            await around.job(plan.forgetting)
            if difference.is_worth_telling:
                return around.listing(user, {"dry_run": False, **difference.shown()})
            await around.job(difference.forgetting)
            return Response(status_code=204)

    async def _document(self, request: Request, user: User) -> Document:
        """Read the body, of which only what it says is kept."""
        around, content_type = self._around, request.headers.get("content-type", "")
        limit, most = documents.BYTES, documents.BYTES_MAX
        async with body_in(around.admission, request, user.name, limit, most) as data:
            return await around.job(lambda: _reading(data, content_type))

    def _importing(
        self, document: Document, user: User, vhost: VirtualHost | None, *, trial: bool
    ) -> StepsTo[Plan]:
        scope = None if vhost is None else vhost.name
        by = f"HTTP user '{user.name}'"
        return importing(self._around.broker, document, by, scope=scope, trial=trial)


def _reading(data: bytearray, content_type: str) -> StepsTo[Document]:
    if not is_form(content_type):
        return (yield from documents.reading(data))
    part = yield from part_in(data, content_type, FILE)
    return (yield from documents.reading(part))
