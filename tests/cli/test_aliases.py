"""RabbitMQ's words: what each stands for, that it parses, and that it does that."""

import pytest

from leporid.cli.aliases import (
    ADMIN_ACTS,
    ADMIN_ALIASES,
    ADMIN_LISTS,
    CTL_ALIASES,
    TOOLS,
    find,
    translated,
)
from leporid.cli.main import COMMANDS, parser
from leporid.cli.outcomes import WrongUse

WORDS = {
    "JSON": '{"max-connections": 5}',
    "LIMIT": "all",
    "VALUE": "1",
    "DEFINITION": '{"max-length":1}',
}
FIELDS = {
    "name": "n", "type": "direct", "source": "s", "destination": "d", "tags": "", "vhost": "v",
    "user": "u", "configure": "", "write": "", "read": "", "pattern": "^", "component": "c",
    "definition": '{"max-length": 1}', "value": "1",
}  # fmt: skip


def means(*arguments: str) -> list[list[str]]:
    found = find(arguments)
    assert found is not None
    return translated(*found)


@pytest.mark.parametrize("name", sorted(CTL_ALIASES))
def test_what_a_word_of_rabbitmqctl_stands_for_parses(name):
    words = [WORDS.get(word, "x") for word in CTL_ALIASES[name].words.split() if word[0] != "["]
    commands = means(name, *words, "-p", "v", "--url", "http://h")
    assert commands
    for command in commands:
        options = parser().parse_args(command)
        if command[0] != "config":
            assert options.url == "http://h"


@pytest.mark.parametrize(("verb", "noun"), sorted(ADMIN_ACTS))
def test_what_rabbitmqadmin_says_stands_for_parses(verb, noun):
    fields = dict(FIELDS)
    while True:
        given = [f"{name}={value}" for name, value in fields.items()]
        try:
            (command,) = means(verb, noun, *given)
        except WrongUse as wrong:
            refused = str(wrong)
        else:
            parser().parse_args(command)
            return
        # A field that this noun does not have.
        assert "has no field" in refused
        del fields[refused.split("'")[1]]


def test_lists_of_rabbitmqadmin_parse():
    for noun in ADMIN_LISTS:
        for command in means("list", noun) + means("list", noun, "name", "-V", "v"):
            parser().parse_args(command)


SOME = """
list_queues name messages -> queues list --columns name,messages --vhost /
list_queues -p s --formatter json -> queues list --columns name,messages --vhost s --json
add_user till secret -> users add till --new-password=secret
set_user_tags till a b -> users set till --tags=a,b
set_policy p ^a {} --priority 3 -> policies set p ^a {} --vhost / --priority 3
rabbitmqctl delete_queue q -q -> queues delete q --vhost / --yes
list queues name -f json -> queues list --columns name --json
declare queue name=q durable=false -> queues add q --vhost / --transient
clear_vhost_limits -p s -> limits delete vhost s all --ignore-not-found
clear_user_limits till all -> limits delete user till all --ignore-not-found
clear_user_limits till max-channels -> limits delete user till max-channels --ignore-not-found
clear_permissions till -> permissions delete till --vhost / --yes --ignore-not-found
clear_topic_permissions till -> topic-permissions delete till --vhost / --yes --ignore-not-found
delete vhost_limit vhost=s name=max-queues -> limits delete vhost s max-queues --ignore-not-found
get queue=q ackmode=ack_requeue_false -> cat queue://q --take --yes --count 1 --vhost /
"""


@pytest.mark.parametrize(
    ("given", "command"), [line.split(" -> ") for line in SOME.strip().splitlines()]
)
def test_some_in_full(given, command):
    assert means(*given.split()) == [command.split()]


def test_several_limits_are_several_commands():
    given = ["set_vhost_limits", '{"max-queues": 1, "max-connections": 2}']
    assert len(means(*given)) == 2


@pytest.mark.parametrize(
    "given",
    [
        "add_user",
        "add_user a b c",
        "delete_queue",
        "set_vhost_limits x",
        "declare house name=x",
        "declare queue",
        "declare queue name=x colour=red",
        "declare queue x",
        "declare queue name=x arguments=[]",
        "list houses",
        "show all",
        "get queue=q",
    ],
)
def test_wrong_use(cli, given):
    cli(*given.split(), code=2)
    assert cli.error.startswith("leporid: ")
    assert cli.error.count("\n") == 1


def test_no_alias_hides_a_command_and_none_another():
    assert not set(COMMANDS) & (set(CTL_ALIASES) | set(ADMIN_ALIASES) | set(TOOLS))
    assert not set(CTL_ALIASES) & set(ADMIN_ALIASES)


def test_they_do_it(leporid, name):
    queue, user = name(), name("u")
    leporid("declare", "queue", f"name={queue}", 'arguments={"x-max-length": 3}')
    assert leporid.json("queues", "show", queue)["arguments"] == {"x-max-length": 3}
    leporid("declare", "binding", "source=amq.direct", f"destination={queue}", "routing_key=k")
    assert "\tk\t" in leporid("list_bindings")
    leporid("delete", "binding", "source=amq.direct", f"destination={queue}", "properties_key=k")
    leporid("publish", "", queue, "-m", "x")
    rows = leporid.rows("list_queues", "name", "messages")
    assert {"name": queue, "messages": "1"} in rows
    assert leporid("get", f"queue={queue}", "ackmode=ack_requeue_false") == "x\n"
    leporid("rabbitmqadmin", "publish", f"routing_key={queue}", "payload=y z")
    assert leporid("get", f"queue={queue}", "ackmode=ack_requeue_false") == "y z\n"
    leporid("rabbitmqadmin", "publish", f"routing_key={queue}", stdin=b"two\nlines")
    assert leporid("get", f"queue={queue}", "ackmode=ack_requeue_false") == "two\nlines\n"
    leporid("purge_queue", queue)
    leporid("delete", "queue", f"name={queue}")
    leporid("rabbitmqctl", "add_user", user, "secret")
    leporid("set_permissions", user, ".*", ".*", ".*")
    assert {"vhost": "/", "user": user, "configure": ".*", "write": ".*", "read": ".*"} in (
        leporid.rows("list_user_permissions", user)
    )
    leporid("authenticate_user", user, "secret")
    leporid("authenticate_user", user, "wrong", code=1)
    leporid("delete_user", user)
    leporid("delete_user", user, code=3)


def test_what_is_no_command_is_refused(cli):
    cli("rabbitmqctl", "stop_app", code=2)
    cli("list_nonsense", code=2)


AROUND = """
rabbitmqctl -q -n rabbit@h -p s list_queues name -> queues list --columns name --vhost s
rabbitmqctl --node=rabbit@h list_users -> users list
rabbitmqctl status -> status --any
rabbitmqctl authenticate_user till x -> users authenticate till --checked-password=x
rabbitmqadmin publish routing_key=k payload=m -> publish  k --message=m --transient --vhost /
rabbitmqadmin publish exchange=e routing_key=k -> publish e k --whole --transient --vhost /
rabbitmq-diagnostics -q check_local_alarms -> status --quiet
rabbitmq-diagnostics -q ping -> ping
rabbitmq-diagnostics check_running -t 10 -> ping --seconds 10
rabbitmq-diagnostics -l --timeout infinity check_virtual_hosts -> ping
rabbitmq-diagnostics check_port_connectivity -> ping --all-ports
rabbitmq-diagnostics check_port_listener 5672 -> ping --port=5672
rabbitmqctl await_startup -> ping --wait 300
rabbitmqctl wait --timeout 60 /var/lib/x.pid -> ping --wait 60
rabbitmqctl wait -t infinity -> ping --wait infinity
rabbitmqadmin -V s list queues name -> queues list --columns name --vhost s
rabbitmqadmin -H h list users -> users list --url http://guest:guest@h:15672
rabbitmqadmin list users -s -u a@b -p p/w -> users list --url https://a%40b:p%2Fw@localhost:15671
"""


@pytest.mark.parametrize(
    ("given", "command"), [line.split(" -> ") for line in AROUND.strip().splitlines()]
)
def test_the_tools_own_options_stand_anywhere(given, command):
    assert means(*given.split()) == [command.split(" ")]


def test_properties_of_a_message_are_those_of_rabbitmqadmin():
    properties = '{"delivery_mode": 2, "content_type": "text/plain", "headers": {"n": 1, "s": "1"}}'
    (command,) = means("rabbitmqadmin", "publish", "routing_key=k", f"properties={properties}")
    assert {
        "--property=delivery_mode=2",
        "--property=content_type=text/plain",
        "--header=n=1",
        '--header=s="1"',
    } <= set(command)
    assert "--transient" not in command
    parser().parse_args(command)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("rabbitmqctl", "rabbitmqctl takes a command"),
        ("rabbitmqctl -q", "rabbitmqctl takes a command"),
        ("rabbitmqctl list_queue", "rabbitmqctl has no 'list_queue' here; did you mean \"list_q"),
        ("rabbitmqctl stop_app", "rabbitmqctl has no 'stop_app' here: end the process"),
        ("rabbitmqctl eval x", "has no 'eval' here: there is no Erlang"),
        ("rabbitmqctl hipe_compile x", "has no 'hipe_compile' here; docs/command-line.md"),
        ("rabbitmqadmin publish payload=x", "routing_key=… is missing"),
        ("rabbitmqadmin publish routing_key=x properties=1", "properties is a JSON object"),
        ("rabbitmqadmin publish routing_key=x payload_encoding=base64", "leporid publish --file"),
    ],
)
def test_what_a_tool_has_and_we_have_not_is_said(cli, given, said):
    cli(*given.split(), code=2)
    assert said in cli.error
    assert cli.error.count("\n") == 1
