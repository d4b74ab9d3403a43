"""The parameters by which a table of messages has only some of them.

Responsible for reading them, and for refusing what is no filter with its place. Must not know what
the table is of. Invariant: what is left out of a table was asked to be left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.stream.choices import choice_for
from leporid.engine.stream.choice import Choice
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.tags import parse_tags
from leporid.management.parameters import Parameters
from leporid.management.refusals import Refusal, bad

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.broker.settings.unknown_arguments import Kind
    from leporid.broker.vhost import VirtualHost

FILTER_PARAMETERS: Final = (
    "routing_key",
    "routing_key_prefix",
    "exchange",
    "since_ms",
    "until_ms",
    "tags",
    "filter",
    "dialect",
)
_FILTERS: Final = ("tags", "filter", "dialect")
_DIALECTS: Final = (DEFAULT, *(one for one in Dialect if one is not DEFAULT))


def filters_in(given: Parameters) -> dict[str, Any]:
    """Return what the engine's `Chosen` is to be made with.

    Raises:
        Refusal: something is not a number, no list of tags, or no expression.
    """
    filters: dict[str, Any] = {
        name: text.encode()
        for name in ("routing_key", "routing_key_prefix", "exchange")
        if (text := given.text(name)) is not None
    }
    if "since_ms" in given:
        filters["since_ms"] = given.needed("since_ms")
    if "until_ms" in given:
        filters["until_ms"] = given.needed("until_ms")
    choice = _choice_in(given)
    if choice is not None:
        filters["choice"] = choice
    return filters


def check_filters(
    given: Parameters, user: User, vhost: VirtualHost, name: str, kind: Kind = "queue"
) -> None:
    """Tell of filters that are right and probably match nothing.

    Raises:
        Refusal: there is one, and the virtual host refuses such.
    """
    filters = {one: text for one in _FILTERS if (text := given.text(one)) is not None}
    try:
        vhost.unknown_arguments.check_table(kind, name, filters, _FILTERS, f"user '{user.name}'")
    except PreconditionFailed as fault:
        raise Refusal(400, "bad-request", fault.text.partition(" - ")[2]) from None


def _choice_in(given: Parameters) -> Choice | None:
    tags, sql = given.text("tags"), given.text("filter")
    dialect = Dialect(given.choice("dialect", _DIALECTS))
    if "dialect" in given and sql is None:
        raise bad("dialect", "there is no filter beside it")
    if tags is not None:
        try:
            parse_tags(tags)
        except FilterError as error:
            raise bad("tags", str(error), position=error.position) from None
    try:
        return choice_for(tags, sql, dialect)
    except FilterError as error:
        raise bad("filter", str(error), position=error.position) from None
