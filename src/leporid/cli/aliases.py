"""The words of `rabbitmqctl` and `rabbitmqadmin`, where they mean the same here.

Responsible for one table: each of their commands, and the commands of ours that it stands for. What
is not in it has another meaning here, or none. They destroy without asking, so what they stand for
is given `--yes`.

Must not carry anything out. Invariant: what an alias stands for is a command of ours that parses.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from leporid.cli.command import Parser, add_connection
from leporid.cli.outcomes import WrongUse
from leporid.server.settings import nearest

CTL: Final = "rabbitmqctl"
ADMIN: Final = "rabbitmqadmin"
DIAGNOSTICS: Final = "rabbitmq-diagnostics"
VHOST_DEFAULT: Final = "/"
DEFAULT_EXCHANGE: Final = "amq.default"
IGNORE: Final = "--ignore-not-found"
"""What of theirs succeeds, whether there was something to clear or not."""

CONNECTION: Final = ("context", "url", "user", "password-file", "password-env", "ca-file")

FLAGS: Final = (
    ("--quiet", "-q"),
    ("--silent", "-s"),
    ("--longnames", "-l"),
    ("--no-table-headers",),
)
"""What their tools take that changes nothing here."""
INFINITY: Final = "infinity"

Words = list[str]


@dataclass(frozen=True, slots=True)
class Given:
    """What stands behind the name of an alias.

    Attributes:
        words: in their order.
        options: as they are read, by the name of their destination.
    """

    words: Words
    options: Mapping[str, Any]

    @property
    def vhost(self) -> str:
        """The virtual host that is meant."""
        return str(self.options.get("vhost") or VHOST_DEFAULT)

    @property
    def within(self) -> Words:
        """The option for it."""
        return ["--vhost", self.vhost]

    def flag(self, name: str) -> Words:
        """Return an option with its value, if it is given."""
        value = self.options.get(name.replace("-", "_"))
        return [] if value is None else [f"--{name}", str(value)]


@dataclass(frozen=True, slots=True)
class Alias:
    """A command of RabbitMQ's tools.

    Attributes:
        words: what it takes, in capitals; in brackets what may be left out, … for several.
        means: the commands of ours.
    """

    words: str
    means: Callable[[Given], list[Words]]

    def check(self, name: str, given: Given) -> None:
        """Raise WrongUse if there are too few words, or too many."""
        needed = [word for word in self.words.split() if not word.startswith("[")]
        allowed = len(self.words.split())
        many = "…" in self.words
        if len(given.words) < len(needed) or (len(given.words) > allowed and not many):
            raise WrongUse(f"{name} takes {self.words or 'no words'}")


def _columns(names: Sequence[str], default: str, other: Mapping[str, str] | None = None) -> Words:
    known = other or {}
    return ["--columns", ",".join(known.get(one, one) for one in names) or default]


def _list(noun: str, default: str, *, vhost: bool = False, **other: str) -> Alias:
    def means(given: Given) -> list[Words]:
        within = given.within if vhost else []
        return [[noun, "list", *_columns(given.words, default, other), *within]]

    return Alias("[COLUMN…]", means)


def _one(
    words: str, *command: str, vhost: bool = False, yes: bool = False, more: Sequence[str] = ()
) -> Alias:
    """Return an alias whose words stand behind a command of ours in the same order."""

    def means(given: Given) -> list[Words]:
        within = given.within if vhost else []
        return [[*command, *given.words, *within, *(["--yes"] if yes else []), *more]]

    return Alias(words, means)


def _policy(noun: str) -> Alias:
    return Alias(
        "NAME PATTERN DEFINITION",
        lambda given: [
            [noun, "set", *given.words, *given.within, *given.flag("priority"),
             *given.flag("apply-to")]
        ],
    )  # fmt: skip


def _limits(of: str, name: str, text: str) -> list[Words]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WrongUse(f"limits are a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise WrongUse('limits are a JSON object: {"max-connections": 10}')
    return [["limits", "set", of, name, limit, str(value)] for limit, value in found.items()]


def _cleared(given: Given) -> list[Words]:
    return [["limits", "delete", "user", *given.words, IGNORE]]


def _tracing(state: str) -> Alias:
    return Alias("", lambda given: [["vhosts", "set", given.vhost, "--tracing", state]])


_ENDS: Final = {
    "source_name": "source",
    "destination_name": "destination",
    "destination_kind": "destination_type",
}

CTL_ALIASES: Final[Mapping[str, Alias]] = {
    "list_queues": _list("queues", "name,messages", vhost=True),
    "list_exchanges": _list("exchanges", "name,type", vhost=True),
    "list_bindings": _list(
        "bindings", "source,destination,destination_type,routing_key,arguments", vhost=True, **_ENDS
    ),
    "list_connections": _list("connections", "user,peer_host,peer_port,state"),
    "list_channels": _list("channels", "name,user,consumer_count,messages_unacknowledged"),
    "list_consumers": Alias(
        "", lambda given: [["consumers", "list", *given.within]]
    ),
    "list_vhosts": _list("vhosts", "name"),
    "list_users": Alias("", lambda given: [["users", "list"]]),
    "list_permissions": Alias("", lambda given: [["permissions", "list", *given.within]]),
    "list_user_permissions": Alias(
        "USER", lambda given: [["permissions", "list", "--of", given.words[0]]]
    ),
    "list_topic_permissions": Alias(
        "", lambda given: [["topic-permissions", "list", *given.within]]
    ),
    "list_user_topic_permissions": Alias(
        "USER", lambda given: [["topic-permissions", "list", "--of", given.words[0]]]
    ),
    "list_policies": Alias("", lambda given: [["policies", "list", *given.within]]),
    "list_operator_policies": Alias(
        "", lambda given: [["operator-policies", "list", *given.within]]
    ),
    "list_parameters": Alias("", lambda given: [["parameters", "list", *given.within]]),
    "list_global_parameters": Alias("", lambda given: [["parameters", "list", "--global"]]),
    "list_vhost_limits": Alias("", lambda given: [["limits", "list"]]),
    "list_user_limits": Alias("", lambda given: [["limits", "list"]]),
    "add_user": Alias(
        "USER [PASSWORD]",
        lambda given: [
            ["users", "add", given.words[0],
             *(f"--new-password={one}" for one in given.words[1:])]
        ],
    ),
    "change_password": Alias(
        "USER [PASSWORD]",
        lambda given: [
            ["users", "set", given.words[0],
             *(f"--new-password={one}" for one in given.words[1:])]
        ],
    ),
    "authenticate_user": Alias(
        "USER [PASSWORD]",
        lambda given: [
            ["users", "authenticate", given.words[0],
             *(f"--checked-password={one}" for one in given.words[1:])]
        ],
    ),
    "set_user_tags": Alias(
        "USER [TAG…]",
        lambda given: [["users", "set", given.words[0], "--tags=" + ",".join(given.words[1:])]],
    ),
    "delete_user": _one("USER", "users", "delete", yes=True),
    "add_vhost": Alias(
        "VHOST",
        lambda given: [
            ["vhosts", "add", given.words[0], *given.flag("description"), *given.flag("tags"),
             *given.flag("default-queue-type")]
        ],
    ),
    "delete_vhost": _one("VHOST", "vhosts", "delete", yes=True),
    "trace_on": _tracing("on"),
    "trace_off": _tracing("off"),
    "set_permissions": _one("USER CONFIGURE WRITE READ", "permissions", "set", vhost=True),
    "clear_permissions": _one(
        "USER", "permissions", "delete", vhost=True, yes=True, more=(IGNORE,)
    ),
    "set_topic_permissions": _one(
        "USER EXCHANGE WRITE READ", "topic-permissions", "set", vhost=True
    ),
    "clear_topic_permissions": _one(
        "USER [EXCHANGE]", "topic-permissions", "delete", vhost=True, yes=True, more=(IGNORE,)
    ),
    "set_policy": _policy("policies"),
    "clear_policy": _one("NAME", "policies", "delete", vhost=True, yes=True),
    "set_operator_policy": _policy("operator-policies"),
    "clear_operator_policy": _one("NAME", "operator-policies", "delete", vhost=True, yes=True),
    "set_parameter": _one("COMPONENT NAME VALUE", "parameters", "set", vhost=True),
    "clear_parameter": _one("COMPONENT NAME", "parameters", "delete", vhost=True, yes=True),
    "set_global_parameter": _one("NAME VALUE", "parameters", "set", "--global", "-"),
    "clear_global_parameter": _one("NAME", "parameters", "delete", "--global", "-", yes=True),
    "set_vhost_limits": Alias(
        "JSON", lambda given: _limits("vhost", given.vhost, given.words[0])
    ),
    "clear_vhost_limits": Alias(
        "",
        lambda given: [["limits", "delete", "vhost", given.vhost, "all", IGNORE]],
    ),
    "set_user_limits": Alias(
        "USER JSON", lambda given: _limits("user", given.words[0], given.words[1])
    ),
    "clear_user_limits": Alias("USER LIMIT", _cleared),
    "close_connection": Alias(
        "CONNECTION REASON",
        lambda given: [
            ["connections", "close", given.words[0], "--reason", given.words[1], "--yes"]
        ],
    ),
    "close_all_user_connections": Alias(
        "USER REASON",
        lambda given: [
            ["connections", "close", "--of", given.words[0], "--reason", given.words[1], "--yes"]
        ],
    ),
    "delete_queue": _one("QUEUE", "queues", "delete", vhost=True, yes=True),
    "purge_queue": _one("QUEUE", "queues", "purge", vhost=True, yes=True),
    "export_definitions": _one("FILE", "definitions", "export"),
    "import_definitions": _one("FILE", "definitions", "import", yes=True),
    "environment": Alias("", lambda given: [["config", "show", "--effective"]]),
}  # fmt: skip
"""What `rabbitmqctl` has: `leporid list_queues name messages`."""


# ---------------------------------------------------------------- rabbitmqadmin

ADMIN_LISTS: Final = {
    "queues": "queues",
    "exchanges": "exchanges",
    "bindings": "bindings",
    "connections": "connections",
    "channels": "channels",
    "consumers": "consumers",
    "users": "users",
    "vhosts": "vhosts",
    "permissions": "permissions",
    "policies": "policies",
    "operator_policies": "operator-policies",
    "parameters": "parameters",
}

Fields = dict[str, str]


def _taken(fields: Fields, *names: str) -> Words:
    """Take the values of fields that must be there."""
    missing = [name for name in names if name not in fields]
    if missing:
        raise WrongUse(f"{missing[0]}=… is missing")
    return [fields.pop(name) for name in names]


def _arguments(fields: Fields) -> Words:
    text = fields.pop("arguments", "{}")
    try:
        found = json.loads(text)
        return [f"--argument={key}={json.dumps(value)}" for key, value in found.items()]
    except (ValueError, AttributeError):
        raise WrongUse(f"arguments={text} is not a JSON object") from None


def _true(fields: Fields, name: str, default: bool = False) -> bool:
    return fields.pop(name, str(default)).lower() == "true"


def _declare_queue(fields: Fields, within: Words) -> Words:
    words = ["queues", "add", *_taken(fields, "name"), *within]
    words += [] if _true(fields, "durable", True) else ["--transient"]
    words += ["--auto-delete"] if _true(fields, "auto_delete") else []
    words += ["--type", fields.pop("queue_type")] if fields.get("queue_type") else []
    fields.pop("node", None)
    return words + _arguments(fields)


def _declare_exchange(fields: Fields, within: Words) -> Words:
    name, kind = _taken(fields, "name", "type")
    words = ["exchanges", "add", name, "--type", kind, *within]
    words += [] if _true(fields, "durable", True) else ["--transient"]
    words += ["--auto-delete"] if _true(fields, "auto_delete") else []
    words += ["--internal"] if _true(fields, "internal") else []
    return words + _arguments(fields)


def _declare_binding(fields: Fields, within: Words) -> Words:
    return _binding("add", fields, within) + _arguments(fields)


def _binding(verb: str, fields: Fields, within: Words) -> Words:
    ends = _taken(fields, "source", "destination")
    words = ["bindings", verb, *ends, "--key=" + fields.pop("routing_key", ""), *within]
    return words + (["--to-exchange"] if fields.pop("destination_type", "") == "exchange" else [])


def _delete_binding(fields: Fields, within: Words) -> Words:
    key = fields.pop("properties_key", "~")
    fields["routing_key"] = "" if key == "~" else key
    return [*_binding("delete", fields, within), "--yes"]


def _declare_user(fields: Fields, within: Words) -> Words:
    name, tags = _taken(fields, "name", "tags")
    password = fields.pop("password", "")
    return ["users", "add", name, f"--tags={tags}", f"--new-password={password}", "--update"]


def _declare_vhost(fields: Fields, within: Words) -> Words:
    words = ["vhosts", "add", *_taken(fields, "name")]
    return words + (["--tracing", "on"] if _true(fields, "tracing") else [])


def _declare_permission(fields: Fields, within: Words) -> Words:
    vhost, *rest = _taken(fields, "vhost", "user", "configure", "write", "read")
    return ["permissions", "set", *rest, "--vhost", vhost]


def _delete_permission(fields: Fields, within: Words) -> Words:
    vhost, user = _taken(fields, "vhost", "user")
    return ["permissions", "delete", user, "--vhost", vhost, "--yes"]


def _declare_policy(noun: str) -> Callable[[Fields, Words], Words]:
    def means(fields: Fields, within: Words) -> Words:
        words = [noun, "set", *_taken(fields, "name", "pattern", "definition"), *within]
        words.append("--priority=" + fields.pop("priority", "0"))
        return [*words, "--apply-to", fields.pop("apply-to", "") or "all"]

    return means


def _declare_limit(of: str) -> Callable[[Fields, Words], Words]:
    def means(fields: Fields, within: Words) -> Words:
        return ["limits", "set", of, *_taken(fields, of, "name", "value")]

    return means


def _delete_limit(of: str) -> Callable[[Fields, Words], Words]:
    def means(fields: Fields, within: Words) -> Words:
        return ["limits", "delete", of, *_taken(fields, of, "name"), IGNORE]

    return means


def _named(*command: str, vhost: bool = True) -> Callable[[Fields, Words], Words]:
    def means(fields: Fields, within: Words) -> Words:
        return [*command, *_taken(fields, "name"), *(within if vhost else []), "--yes"]

    return means


def _parameter(verb: str, *names: str, yes: bool = False) -> Callable[[Fields, Words], Words]:
    def means(fields: Fields, within: Words) -> Words:
        asked = ["--yes"] if yes else []
        return ["parameters", verb, *_taken(fields, "component", *names), *within, *asked]

    return means


ADMIN_ACTS: Final[Mapping[tuple[str, str], Callable[[Fields, Words], Words]]] = {
    ("declare", "queue"): _declare_queue,
    ("declare", "exchange"): _declare_exchange,
    ("declare", "binding"): _declare_binding,
    ("declare", "user"): _declare_user,
    ("declare", "vhost"): _declare_vhost,
    ("declare", "permission"): _declare_permission,
    ("declare", "policy"): _declare_policy("policies"),
    ("declare", "operator_policy"): _declare_policy("operator-policies"),
    ("declare", "parameter"): _parameter("set", "name", "value"),
    ("declare", "vhost_limit"): _declare_limit("vhost"),
    ("declare", "user_limit"): _declare_limit("user"),
    ("delete", "queue"): _named("queues", "delete"),
    ("delete", "exchange"): _named("exchanges", "delete"),
    ("delete", "binding"): _delete_binding,
    ("delete", "user"): _named("users", "delete", vhost=False),
    ("delete", "vhost"): _named("vhosts", "delete", vhost=False),
    ("delete", "permission"): _delete_permission,
    ("delete", "policy"): _named("policies", "delete"),
    ("delete", "operator_policy"): _named("operator-policies", "delete"),
    ("delete", "parameter"): _parameter("delete", "name", yes=True),
    ("delete", "vhost_limit"): _delete_limit("vhost"),
    ("delete", "user_limit"): _delete_limit("user"),
    ("close", "connection"): _named("connections", "close", vhost=False),
    ("purge", "queue"): _named("queues", "purge"),
}
"""What `rabbitmqadmin` has with fields: `leporid declare queue name=orders durable=true`."""


def _admin_list(given: Given) -> list[Words]:
    noun, *columns = given.words
    if noun not in ADMIN_LISTS:
        raise WrongUse(f"list takes one of {', '.join(ADMIN_LISTS)}")
    named = given.options.get("vhost") is not None and noun not in ("users", "vhosts")
    within = given.within if named else []
    return [[ADMIN_LISTS[noun], "list", *(_columns(columns, "") if columns else []), *within]]


def _admin_act(verb: str) -> Alias:
    nouns = [noun for known, noun in ADMIN_ACTS if known == verb]

    def means(given: Given) -> list[Words]:
        noun, *rest = given.words
        if noun not in nouns:
            raise WrongUse(f"{verb} takes one of {', '.join(nouns)}")
        fields: Fields = {}
        for text in rest:
            name, separator, value = text.partition("=")
            if not separator:
                raise WrongUse(f"{text!r} is not NAME=VALUE")
            fields[name] = value
        within = ["--vhost", str(given.options.get("vhost") or VHOST_DEFAULT)]
        words = ADMIN_ACTS[verb, noun](fields, within)
        if fields:
            raise WrongUse(f"{verb} {noun} has no field {next(iter(fields))!r} here")
        return [words]

    return Alias("NOUN NAME=VALUE…", means)


def _admin_get(given: Given) -> list[Words]:
    fields = dict(each.partition("=")[::2] for each in given.words)
    queue, count = fields.pop("queue", ""), fields.pop("count", "1")
    if not queue:
        raise WrongUse("queue=… is missing")
    if fields.pop("ackmode", "ack_requeue_true") != "ack_requeue_false" or fields:
        raise WrongUse(
            "get takes queue=, count= and ackmode=ack_requeue_false; to look: leporid cat"
        )
    source = f"queue://{quote(queue, safe='')}"
    return [["cat", source, "--take", "--yes", "--count", count, *given.within]]


def _admin_publish(given: Given) -> list[Words]:
    """Messages of rabbitmqadmin are transient unless their properties say otherwise."""
    fields = dict(each.partition("=")[::2] for each in given.words)
    key, exchange = fields.pop("routing_key", None), fields.pop("exchange", DEFAULT_EXCHANGE)
    if key is None:
        raise WrongUse("routing_key=… is missing")
    payload, encoding = fields.pop("payload", None), fields.pop("payload_encoding", "string")
    properties = _json_object("properties", fields.pop("properties", "{}"))
    headers = properties.pop("headers", {})
    if encoding != "string" or fields or not isinstance(headers, dict):
        raise WrongUse(
            "publish takes exchange=, routing_key=, payload=, properties= and "
            "payload_encoding=string; for other bodies: leporid publish --file FILE"
        )
    said = [f"--property={name}={_valued(value)}" for name, value in properties.items()]
    said += [f"--header={name}={json.dumps(value)}" for name, value in headers.items()]
    said += [] if "delivery_mode" in properties else ["--transient"]
    body = ["--whole"] if payload is None else [f"--message={payload}"]
    name = "" if exchange == DEFAULT_EXCHANGE else exchange
    return [["publish", name, key, *body, *said, *given.within]]


def _valued(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WrongUse(f"{name} is a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise WrongUse(f"{name} is a JSON object")
    return found


def _show(given: Given) -> list[Words]:
    if given.words != ["overview"]:
        raise WrongUse("show takes overview")
    return [["status", "--any"]]


ADMIN_ALIASES: Final[Mapping[str, Alias]] = {
    "list": Alias("NOUN [COLUMN…]", _admin_list),
    "show": Alias("overview", _show),
    "declare": _admin_act("declare"),
    "delete": _admin_act("delete"),
    "close": _admin_act("close"),
    "purge": _admin_act("purge"),
    "get": Alias("queue=QUEUE [FIELD=VALUE…]", _admin_get),
    "export": _one("FILE", "definitions", "export"),
    "import": _one("FILE", "definitions", "import", yes=True),
}

STATUS: Final = Alias("", lambda given: [["status", "--any"]])
ALARMS: Final = Alias("", lambda given: [["status", "--quiet"]])
STARTUP_SECONDS: Final = "300"
"""How long theirs waits for a node to start, unless it is told."""
WITHOUT_CONNECTION: Final = ("config", "ping")


def _ping(words: str = "", *options: str) -> Alias:
    """Return an alias that asks the broker of this machine, as theirs asks its node."""

    def means(given: Given) -> list[Words]:
        seconds = given.options.get("timeout")
        limit = ["--seconds", seconds] if seconds and seconds != INFINITY else []
        return [["ping", *options, *(f"--port={word}" for word in given.words), *limit]]

    return Alias(words, means)


def _await(words: str) -> Alias:
    def means(given: Given) -> list[Words]:
        return [["ping", "--wait", given.options.get("timeout") or STARTUP_SECONDS]]

    return Alias(words, means)


_OF_THE_NODE: Final = {
    "status": STATUS,
    "ping": _ping(),
    "await_startup": _await(""),
    "wait": _await("[PIDFILE]"),
    "node_health_check": Alias("", lambda given: [["ping"], ["status", "--quiet"]]),
}

TOOLS: Final[Mapping[str, Mapping[str, Alias]]] = {
    # By themselves, `status` and `publish` are the commands of ours.
    CTL: {**CTL_ALIASES, **_OF_THE_NODE},
    ADMIN: {**ADMIN_ALIASES, "publish": Alias("routing_key=KEY [FIELD=VALUE…]", _admin_publish)},
    DIAGNOSTICS: {
        **_OF_THE_NODE,
        "check_alarms": ALARMS,
        "check_local_alarms": ALARMS,
        # Before all virtual hosts are there, nothing answers.
        "check_running": _ping(),
        "check_virtual_hosts": _ping(),
        "check_port_connectivity": _ping("", "--all-ports"),
        "check_port_listener": _ping("PORT"),
    },
}

INSTEAD: Final[Mapping[str, str]] = {
    "cluster_status": "there is one node: leporid status",
    "report": "leporid status, leporid doctor",
    "stop": "end the process (SIGTERM, systemctl stop leporid)",
    "stop_app": "end the process (SIGTERM, systemctl stop leporid)",
    "shutdown": "end the process (SIGTERM, systemctl stop leporid)",
    "start_app": "leporid serve, or systemctl start leporid",
    "reset": "end the process, and remove its data directory",
    "eval": "there is no Erlang",
    "check_protocol_listener": "check_port_listener PORT",
    "check_certificate_expiration": "leporid doctor",
    "enable_feature_flag": "all are enabled",
    "set_log_level": "log_level in the configuration, then SIGHUP",
}
"""What to do instead of words of RabbitMQ's tools that are not in the tables."""


# ---------------------------------------------------------------- reading


def _parser(name: str, alias: Alias) -> Parser:
    made = Parser(prog=f"leporid {name}", usage=f"leporid {name} [options] {alias.words}")
    made.add_argument("words", nargs="*")
    made.add_argument("--vhost", "-p", "-V", metavar="V")
    made.add_argument(
        "--formatter", "--format", "-f", choices=("table", "pretty_table", "tsv", "json")
    )
    made.add_argument("--node", "-n", help="passed over: there is one")
    made.add_argument("--timeout", "-t", metavar="SECONDS", help="to wait, where it waits")
    made.add_argument("--erlang-cookie", help="passed over: there is no Erlang")
    for unheard in FLAGS:
        made.add_argument(*unheard, action="store_true", help="passed over")
    for option in ("priority", "apply-to", "description", "tags", "default-queue-type"):
        made.add_argument(f"--{option}")
    add_connection(made)
    return made


def find(arguments: Sequence[str]) -> tuple[str, Alias, Sequence[str]] | None:
    """Return the name, the alias and the rest, if the first words are one of an alias.

    Behind the name of its tool, options may stand before the word, as the tool itself allows.

    Raises:
        WrongUse: the tool's word is none here.
    """
    if arguments and arguments[0] in TOOLS:
        tool, *given = arguments
        rest = _with_admin_login(given) if tool == ADMIN else given
        place = _place_of_word(rest)
        word = rest[place] if place < len(rest) else ""
        if word not in TOOLS[tool]:
            raise WrongUse(_unknown(tool, word))
        return word, TOOLS[tool][word], [*rest[place + 1 :], *rest[:place]]
    for aliases in (CTL_ALIASES, ADMIN_ALIASES):
        if arguments and arguments[0] in aliases:
            return arguments[0], aliases[arguments[0]], arguments[1:]
    return None


def _place_of_word(given: Sequence[str]) -> int:
    """Return where the first word stands that is neither an option nor the value of one."""
    flags = [name for names in FLAGS for name in names]
    place = 0
    while place < len(given) and given[place].startswith("-"):
        alone = given[place] in flags or "=" in given[place]
        place += 1 if alone else 2
    return place


def _unknown(tool: str, word: str) -> str:
    if not word:
        return f"{tool} takes a command: docs/command-line.md lists those that are here"
    instead = f": {INSTEAD[word]}" if word in INSTEAD else nearest(word, TOOLS[tool])
    return f"{tool} has no {word!r} here" + (instead or "; docs/command-line.md lists what it has")


def _with_admin_login(given: Sequence[str]) -> Words:
    """Turn rabbitmqadmin's own options into ours: -H, -P, -s, -u and -p say which broker.

    If one of them is there, the others are rabbitmqadmin's defaults, whatever context is current.
    """
    reader = Parser(prog=f"leporid {ADMIN}", add_help=False)
    reader.add_argument("--host", "-H", default=argparse.SUPPRESS)
    reader.add_argument("--port", "-P", type=int, default=argparse.SUPPRESS)
    reader.add_argument("--username", "-u", default=argparse.SUPPRESS)
    reader.add_argument("--password", "-p", default=argparse.SUPPRESS)
    reader.add_argument("--ssl", "-s", action="store_true", default=argparse.SUPPRESS)
    reader.add_argument("--ssl-ca-cert-file", dest="ca_file", default=argparse.SUPPRESS)
    options, rest = reader.parse_known_args(list(given))
    said = vars(options)
    if not said:
        return list(rest)
    scheme, port = ("https", 15671) if said.get("ssl") else ("http", 15672)
    user, password = (quote(said.get(name, "guest"), safe="") for name in ("username", "password"))
    host = said.get("host", "localhost")
    place = f"[{host}]" if ":" in host else host
    words = [f"--url={scheme}://{user}:{password}@{place}:{said.get('port', port)}"]
    words += [f"--ca-file={said['ca_file']}"] if "ca_file" in said else []
    return [*words, *rest]


def translated(name: str, alias: Alias, rest: Sequence[str]) -> list[Words]:
    """Return the commands of ours that an alias stands for.

    Raises:
        WrongUse: its words are not as RabbitMQ's tool takes them.
        SystemExit: its options are not.
    """
    options: argparse.Namespace = _parser(name, alias).parse_intermixed_args(rest)
    given = Given(options.words, vars(options))
    alias.check(name, given)
    shared = [["--json"]] if options.formatter == "json" else []
    shared += map(given.flag, CONNECTION)
    behind = [word for words in shared for word in words]
    found = alias.means(given)
    # What asks no broker has no such options.
    return [words if words[0] in WITHOUT_CONNECTION else [*words, *behind] for words in found]
