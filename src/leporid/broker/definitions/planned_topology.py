"""Exchanges, queues and bindings of a document.

Responsible for reading them, for comparing them with what is there, and for making them. Must not
know the form of a document, nor who imports it. Invariants: what is there with other properties
stays as it is and is told as a conflict; a binding whose end goes before it is made is dropped from
the record, so that what is there and what is recorded stay the same.

Arguments are compared as JSON has them: of what was exported, AMQP's types of numbers are gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.errors import Fault
from leporid.amqp.json_values import shown
from leporid.amqp.tables import encode_table
from leporid.broker.access.limits import check_vhost_queues
from leporid.broker.definitions.members import (
    Item,
    WrongDefinition,
    flag_in,
    name_in,
    table_in,
    text_in,
)
from leporid.broker.definitions.plan import End, Properties, gone
from leporid.broker.exchange.exchange import ALTERNATE_ARGUMENT, DEFAULT_EXCHANGE
from leporid.broker.exchange.topology import PREDECLARED
from leporid.broker.exchange.types import Binding, is_exchange_type, make_router
from leporid.broker.filter.filter_arguments import check_names, filter_of
from leporid.broker.memory import EXCHANGE_BYTES, binding_bytes, queue_bytes, size_of
from leporid.broker.names import SYSTEM_PREFIX, exchange_in, queue_in, without_line_breaks
from leporid.broker.queue.queue_types import queue_type
from leporid.broker.settings.redeclaring import DEAD_LETTER_EXCHANGE
from leporid.broker.settings.unknown_arguments import unknown_in
from leporid.broker.settings.values import exchange_name
from leporid.broker.stored import StoredBinding, StoredExchange, StoredQueue

if TYPE_CHECKING:
    from leporid.amqp.tables import Value
    from leporid.broker.definitions.plan import Plan
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.types import DestinationKind
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Steps
    from leporid.broker.vhost import VirtualHost

RESERVED: Final = "names that begin with amq. are the broker's own"
_PREDECLARED: Final = frozenset(name for name, _ in PREDECLARED)

# ------------------------------------------------------------- exchanges


def plan_exchange(plan: Plan, item: Item) -> None:
    """Plan an exchange."""
    vhost = plan.vhost_of(item)
    name = without_line_breaks(name_in(item, may_be_empty=True))
    title = exchange_in(vhost.name, name)
    if name in _PREDECLARED or name.startswith(SYSTEM_PREFIX):
        plan.difference.ignore(title, RESERVED)
        return
    arguments = table_in(item)
    properties: Properties = {
        "type": text_in(item, "type"),
        "durable": flag_in(item, "durable", True),
        "auto_delete": flag_in(item, "auto_delete", False),
        "internal": flag_in(item, "internal", False),
        "arguments": shown(arguments),
    }
    existing = vhost.find_exchange(name)
    planned = plan.topology.exchanges.get((vhost.name, name))
    if existing is None and planned is None:
        vhost.check_exchange_free(name)
    before = _of_exchange(existing) if planned is None else planned.properties
    if before is not None:
        _compare(plan, "exchanges", (vhost.name, name), before, properties)
        return
    if not is_exchange_type(properties["type"]):
        raise WrongDefinition(f"unknown exchange type '{properties['type'][:80]}'")
    router = make_router(properties["type"], arguments, lambda: 0)
    exchange_name(arguments, ALTERNATE_ARGUMENT, title)
    vhost.unknown_arguments.check_exchange(name, arguments, plan.by)
    _tell_unknown(plan, title, unknown_in("exchange", arguments))
    plan.charge(title, size_of(EXCHANGE_BYTES, name, arguments))
    plan.reserve(vhost, "exchange", name)
    plan.note("exchanges", (vhost.name, name), None, properties)
    plan.topology.exchanges[vhost.name, name] = End(properties["durable"], properties, router)
    _make_exchange(plan, vhost, name, properties, arguments)


def _make_exchange(
    plan: Plan,
    vhost: VirtualHost,
    name: str,
    properties: Properties,
    arguments: Mapping[str, Value],
) -> None:
    kind, durable = properties["type"], properties["durable"]
    auto_delete, internal = properties["auto_delete"], properties["internal"]
    if durable:
        encoded = encode_table(arguments)
        plan.put(StoredExchange(vhost.name, name, kind, auto_delete, internal, encoded))

    def make() -> None:
        vhost.reserved.discard("exchange", name)
        if not gone(vhost):
            made = vhost.add_exchange(
                name,
                kind,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
            plan.broker.events.exchange_created(vhost.name, made)

    plan.make(make)


def _of_exchange(exchange: ExchangeState | None) -> Properties | None:
    if exchange is None:
        return None
    return {
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": shown(dict(exchange.arguments)),
    }


def _compare(
    plan: Plan, noun: str, identity: tuple[str, ...], before: Properties, after: Properties
) -> None:
    """Say whether what is there is as a document has it."""
    differing = [key for key, value in after.items() if before[key] != value]
    if not differing:
        plan.difference[noun].unchanged += 1
        return
    reason = "; ".join(
        f"{key} is {_cut(before[key])} there, and {_cut(after[key])} in the document"
        for key in differing
    )
    plan.difference[noun].conflicting.append((identity, reason))


def _cut(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:100] + "…"


def _tell_unknown(plan: Plan, title: str, unknown: Any) -> None:
    for argument, _ in unknown:
        what = f"argument '{argument[:80]}' of {title}"
        plan.difference.ignore(what, "it is kept, and nothing reads it")


# ------------------------------------------------------------- queues


def plan_queue(plan: Plan, item: Item) -> None:
    """Plan a queue."""
    vhost = plan.vhost_of(item)
    name = without_line_breaks(name_in(item))
    title = queue_in(vhost.name, name)
    if name.startswith(SYSTEM_PREFIX):
        plan.difference.ignore(title, RESERVED)
        return
    arguments = table_in(item)
    properties: Properties = {
        "durable": flag_in(item, "durable", True),
        "auto_delete": flag_in(item, "auto_delete", False),
        "exclusive": False,
        "arguments": shown(arguments),
    }
    existing = vhost.find_queue(name)
    planned = plan.topology.queues.get((vhost.name, name))
    if existing is None and planned is None:
        vhost.check_free(name)
    before = _of_queue(existing) if planned is None else planned.properties
    if before is not None:
        _compare(plan, "queues", (vhost.name, name), before, properties)
        return
    _check_queue(plan, vhost, name, properties, arguments)
    plan.charge(title, queue_bytes(name, arguments))
    plan.reserve(vhost, "queue", name)
    plan.note("queues", (vhost.name, name), None, properties)
    plan.new_queues[vhost.name] += 1
    plan.topology.queues[vhost.name, name] = End(properties["durable"], properties)
    _make_queue(plan, vhost, name, properties, arguments)


def _check_queue(
    plan: Plan,
    vhost: VirtualHost,
    name: str,
    properties: Properties,
    arguments: Mapping[str, Value],
) -> None:
    title = queue_in(vhost.name, name)
    vhost.check_queue(
        name,
        durable=properties["durable"],
        auto_delete=properties["auto_delete"],
        exclusive=False,
        arguments=arguments,
    )
    exchange_name(arguments, DEAD_LETTER_EXCHANGE, title)
    vhost.unknown_arguments.check_queue(name, arguments, plan.by)
    _tell_unknown(plan, title, unknown_in("queue", arguments))
    limits = dict(vhost.limits)
    if vhost.name in plan.queues_max:
        limits["max-queues"] = plan.queues_max[vhost.name]
    count = vhost.queue_count + plan.new_queues[vhost.name]
    check_vhost_queues(limits, count, vhost=vhost.name, queue=name)


def _make_queue(
    plan: Plan,
    vhost: VirtualHost,
    name: str,
    properties: Properties,
    arguments: Mapping[str, Value],
) -> None:
    number = plan.broker.new_queue_id() if properties["durable"] else 0
    auto_delete = properties["auto_delete"]
    if number:
        plan.put(StoredQueue(number, vhost.name, name, auto_delete, encode_table(arguments)))

    def make() -> None:
        vhost.reserved.discard("queue", name)
        if not gone(vhost):
            made = vhost.make_queue(
                name,
                queue_id=number,
                auto_delete=auto_delete,
                arguments=arguments,
                kind=queue_type(arguments),
            )
            plan.broker.churn.queues_created += 1
            plan.broker.events.queue_created(made)

    plan.make(make)


def _of_queue(queue: QueueState | None) -> Properties | None:
    if queue is None:
        return None
    return {
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": shown(dict(queue.arguments)),
    }


# ------------------------------------------------------------- bindings


def plan_binding(plan: Plan, item: Item) -> Steps:
    """Plan a binding, in steps: those that are there may have to be looked through."""
    vhost = plan.vhost_of(item)
    source = without_line_breaks(name_in(item, "source", may_be_empty=True))
    destination = without_line_breaks(name_in(item, "destination"))
    given = text_in(item, "destination_type")
    if given not in ("queue", "exchange"):
        raise WrongDefinition("destination_type is neither queue nor exchange")
    kind: DestinationKind = "exchange" if given == "exchange" else "queue"
    key = text_in(item, "routing_key", "", bytes_max=255)
    arguments = table_in(item)
    title = f"binding of {kind} '{destination}' to {exchange_in(vhost.name, source)}"
    if source == DEFAULT_EXCHANGE:
        plan.difference.ignore(title, "the default exchange has its bindings by itself")
        return
    identity = vhost.name, source, kind, destination, key
    binding = Binding(source, destination, kind, key, {k: arguments[k] for k in sorted(arguments)})
    found = _ends(plan, vhost, binding)
    if found is None:
        if source.startswith(SYSTEM_PREFIX) and source not in _PREDECLARED:
            plan.difference.ignore(title, "there is no such exchange here")
            return
        raise WrongDefinition(f"{title}: one of its ends is neither there nor in the document")
    from_end, to_end = found
    if (vhost.name, binding) in plan.topology.bindings:
        return
    existing = vhost.find_exchange(source)
    bound = existing is not None and binding in existing.outgoing
    if arguments and existing is not None and not bound:
        yield from _look_at_bindings(plan, vhost, existing)
        bound = _looked_up(binding) in plan.topology.bound[vhost.name, source]
    if bound:
        plan.difference["bindings"].unchanged += 1
        return
    _check_binding(plan, vhost, binding, from_end, existing)
    plan.charge(title, binding_bytes(binding))
    plan.topology.bindings.add((vhost.name, binding))
    plan.note("bindings", identity, None, binding)
    if from_end.durable and to_end.durable:
        plan.put(StoredBinding.of(vhost.name, binding))
    plan.make(_binding_maker(plan, vhost, binding, from_end.durable and to_end.durable))


def _ends(plan: Plan, vhost: VirtualHost, binding: Binding) -> tuple[End, End] | None:
    """Return both ends of a binding; None if one is missing."""
    source = _exchange_end(plan, vhost, binding.source)
    if binding.destination_kind == "exchange":
        destination = _exchange_end(plan, vhost, binding.destination)
    else:
        destination = plan.topology.queues.get((vhost.name, binding.destination))
        queue = vhost.find_queue(binding.destination)
        if queue is not None:
            queue.check_access(None)
            destination = End(queue.durable, {})
    return None if source is None or destination is None else (source, destination)


def _exchange_end(plan: Plan, vhost: VirtualHost, name: str) -> End | None:
    exchange = vhost.find_exchange(name) if name != DEFAULT_EXCHANGE else None
    if exchange is not None:
        return End(exchange.durable, {}, exchange.router)
    return plan.topology.exchanges.get((vhost.name, name))


def _check_binding(
    plan: Plan, vhost: VirtualHost, binding: Binding, source: End, existing: ExchangeState | None
) -> None:
    assert source.router is not None
    source.router.validate(binding.key, binding.arguments)
    check_names(binding.arguments)
    filter_of(binding.arguments, plan.broker.filter_classes.require)
    if existing is not None:
        vhost.unknown_arguments.check_binding(existing, binding, plan.by)


def _look_at_bindings(plan: Plan, vhost: VirtualHost, exchange: ExchangeState) -> Steps:
    """Know which bindings with arguments lead from an exchange; once for all of a plan."""
    key = vhost.name, exchange.name
    if key in plan.topology.bound:
        return
    found = plan.topology.bound[key] = set()
    for binding in tuple(exchange.outgoing):
        if binding.arguments:
            found.add(_looked_up(binding))
        yield None


def _looked_up(binding: Binding) -> tuple[str, str, str, str]:
    arguments = json.dumps(shown(dict(binding.arguments)), sort_keys=True)
    return binding.destination_kind, binding.destination, binding.key, arguments


def _binding_maker(
    plan: Plan, vhost: VirtualHost, binding: Binding, durable: bool
) -> Callable[[], Steps]:
    def make() -> Steps:
        if gone(vhost):
            return
        try:
            steps = vhost.bindings.make_recorded(binding, durable=durable)
            if steps is not None:
                yield from steps
        except Fault as fault:
            # What an exchange keeps could not be given, so there is no such binding.
            title = f"binding of '{binding.destination}' to '{binding.source}'"
            plan.difference.ignore(title, fault.text.partition(" - ")[2])

    return make
