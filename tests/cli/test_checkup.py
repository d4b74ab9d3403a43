"""What the checks find in made-up facts; each has a case in which it is silent."""

import pytest

from leporid.cli.checkup import LISTED_MAX, Facts, findings, metrics_in

FINE = {
    "alarms": [],
    "memory": {"used": 10**8, "limit": 10**9},
    "disk": {"free": 10**11, "limit": 5 * 10**7},
    "sockets": {"used": 1, "limit": 1000},
    "files": {"limit": 65536},
}
QUEUE = {"name": "q", "vhost": "/", "type": "classic", "consumers": 1, "messages_ready": 0}
EXCHANGE = {"name": "amq.direct", "vhost": "/", "arguments": {}}
POLICY = {"vhost": "/", "name": "p", "pattern": "^a", "apply-to": "queues"}


def found(**facts) -> list[tuple[str, str, str]]:
    facts.setdefault("status", FINE)
    return [(one.severity, one.check, one.object) for one in findings(Facts(**facts))]


def test_nothing_is_wrong():
    facts = Facts(
        status=FINE,
        queues=[QUEUE | {"policy": "p"}],
        exchanges=[EXCHANGE],
        policies={"policy": [POLICY]},
        connections=[{"name": "c", "user": "u", "state": "running"}],
    )
    assert findings(facts) == []


@pytest.mark.parametrize(
    ("status", "check", "severity"),
    [
        ({"alarms": ["memory"]}, "alarms", "error"),
        ({"alarms": ["disk"]}, "alarms", "error"),
        ({"memory": {"used": 9 * 10**8, "limit": 10**9}}, "memory", "warning"),
        ({"disk": {"free": 10**8, "limit": 5 * 10**7}}, "disk", "warning"),
        ({"sockets": {"used": 900, "limit": 1000}}, "connections", "warning"),
        ({"files": {"limit": 1024}}, "files", "warning"),
    ],
)
def test_limits(status, check, severity):
    assert found(status=FINE | status) == [(severity, check, "broker")]


def test_queues_without_consumers():
    lonely = QUEUE | {"consumers": 0}
    assert found(queues=[lonely]) == []
    assert found(queues=[lonely | {"messages_ready": 5}]) == [
        ("note", "consumers", "queue 'q' in '/'")
    ]
    assert found(queues=[lonely | {"messages_ready": 5000}])[0][0] == "warning"
    assert found(queues=[lonely | {"messages_ready": 5000, "type": "stream"}]) == []
    assert found(queues=[QUEUE | {"state": "paused"}])[0][1] == "paused"


def test_targets_that_are_missing():
    dying = QUEUE | {"arguments": {"x-dead-letter-exchange": "dead"}}
    assert found(queues=[dying], exchanges=[EXCHANGE]) == [("error", "targets", "queue 'q' in '/'")]
    by_policy = QUEUE | {"effective_policy_definition": {"dead-letter-exchange": "dead"}}
    assert found(queues=[by_policy], exchanges=[EXCHANGE])[0][1] == "targets"
    there = EXCHANGE | {"name": "dead"}
    assert found(queues=[dying, by_policy], exchanges=[there]) == []
    assert found(queues=[dying], exchanges=[there | {"vhost": "other"}])[0][1] == "targets"
    default = QUEUE | {"arguments": {"x-dead-letter-exchange": ""}}
    assert found(queues=[default], exchanges=[EXCHANGE]) == []
    assert found(queues=[dying]) == [], "nobody could list the exchanges"
    other = EXCHANGE | {"arguments": {"alternate-exchange": "none"}}
    assert found(exchanges=[other])[0][2] == "exchange 'amq.direct' in '/'"


def test_dead_letters_that_were_dropped():
    row = {"queue": "q", "vhost": "/", "reason": "expired", "exchange": "dead", "dropped": 3}
    assert found(dead_letters=[row]) == [("note", "deadletters", "queue 'q' in '/'")]
    assert found(dead_letters=[row | {"dropped": 0}]) == []


def test_policies_that_govern_nothing():
    assert found(policies={"policy": [POLICY]}) == [("note", "policies", "policy 'p' in '/'")]
    assert found(policies={"operator_policy": [POLICY]}, queues=[QUEUE | {"policy": "p"}]) == [
        ("note", "policies", "operator policy 'p' in '/'")
    ]


def test_the_password_that_everybody_knows():
    assert found(guest_from="localhost")[0][0] == "note"
    assert found(guest_from="mq.example")[0][0] == "error"


def test_messages_that_go_nowhere():
    stats = {"drop_unroutable": 3, "drop_unroutable_details": {"rate": 0.0}}
    assert found(overview={"message_stats": stats})[0][:2] == ("note", "unroutable")
    stats["drop_unroutable_details"] = {"rate": 1.5}
    assert found(overview={"message_stats": stats})[0][:2] == ("warning", "unroutable")


def test_connections_that_are_blocked():
    assert found(connections=[{"name": "c", "user": "u", "state": "blocked"}]) == [
        ("warning", "blocked", "connection 'c' of 'u'")
    ]


def test_slow_syncs_and_refusals_are_read_from_metrics():
    page = (
        "# HELP leporid_sync_seconds x\n"
        'leporid_sync_seconds_bucket{le="0.01"} 10.0\n'
        'leporid_sync_seconds_bucket{le="0.5"} 100.0\n'
        'leporid_sync_seconds_bucket{le="+Inf"} 100.0\n'
        'leporid_refusals_total{kind="connections"} 2.0\n'
        'leporid_refusals_total{kind="channels"} 0.0\n'
        "no sample\n"
    )
    metrics = metrics_in(page)
    assert found(metrics=metrics) == [("warning", "disk", "broker"), ("note", "limits", "broker")]
    fast = metrics_in('leporid_sync_seconds_bucket{le="0.01"} 10\n')
    assert found(metrics=fast) == []


def test_arguments_classes_and_certificates():
    unknown = {"kind": "queue", "name": "q", "vhost": "/", "argument": "x-max-lenght"}
    reason = {"reason": "unknown", "suggestion": "x-max-length"}
    (one,) = findings(Facts(status=FINE, unknown_arguments=[unknown | reason]))
    assert one.next == "'x-max-length' was meant, probably"
    failing = {"name": "late", "state": "waiting", "failures": 3, "error": "boom"}
    assert found(filter_classes=[failing])[0][:2] == ("warning", "filters")
    assert found(filter_classes=[failing | {"state": "idle", "error": None}]) == []
    assert found(certificates="expires tomorrow")[0][1] == "certificates"


def test_many_of_a_kind_are_counted():
    lonely = [QUEUE | {"name": f"q{n}", "consumers": 0, "messages_ready": 1} for n in range(50)]
    shown = findings(Facts(status=FINE, queues=lonely))
    assert len(shown) == LISTED_MAX + 1
    assert shown[-1].what == f"{50 - LISTED_MAX} more of the same kind"


def test_the_worst_comes_first():
    shown = found(
        status=FINE | {"alarms": ["disk"]}, guest_from="localhost", certificates="tomorrow"
    )
    assert [severity for severity, _, _ in shown] == ["error", "warning", "note"]
