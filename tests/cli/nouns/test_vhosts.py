"""`leporid vhosts` and `leporid limits` against a broker."""


def test_vhosts(leporid, name):
    vhost = name("v")
    leporid("vhosts", "add", vhost, "--description", "a shop", "--tags", "a,b")
    leporid("vhosts", "set", vhost, "--default-queue-type", "quorum")
    shown = leporid.json("vhosts", "show", vhost)
    assert (shown["description"], shown["tags"]) == ("a shop", ["a", "b"])
    assert shown["default_queue_type"] == "quorum"
    leporid("vhosts", "set", vhost, code=2)
    (row,) = leporid.rows("vhosts", "list", "--name", vhost)
    assert (row["name"], row["tags"]) == (vhost, "a,b")
    leporid("queues", "add", "q", "-p", vhost)
    said = leporid("vhosts", "delete", vhost, "--dry-run")
    assert said == f"would delete virtual host '{vhost}' with its 1 queues and all else\n"
    leporid("vhosts", "delete", vhost, "-y")
    leporid("vhosts", "show", vhost, code=3)


def test_limits(leporid, name):
    vhost = name("v")
    leporid("vhosts", "add", vhost)
    leporid("limits", "set", "vhost", vhost, "max-queues", "1")
    leporid("limits", "set", "user", "guest", "max-channels", "1000")
    rows = leporid.rows("limits", "list")
    assert {"kind": "vhost", "of": vhost, "limit": "max-queues", "value": "1"} in rows
    assert {"kind": "user", "of": "guest", "limit": "max-channels", "value": "1000"} in rows
    leporid("queues", "add", "a", "-p", vhost)
    leporid("queues", "add", "b", "-p", vhost, code=1)
    assert "limit" in leporid.error
    leporid("limits", "delete", "user", "guest", "max-channels", "--yes")
    leporid("limits", "set", "user", "guest", "max-queues", "1", code=2)
    assert "only max-connections and max-channels" in leporid.error
    leporid("limits", "set", "vhost", "nowhere", "max-queues", "1", code=3)
    assert leporid.error == "leporid: there is no virtual host 'nowhere'\n"
    leporid("vhosts", "delete", vhost, "-y")
    assert leporid.rows("limits", "list") == []


def test_limits_that_are_not_set(leporid, name):
    vhost, nowhere = name("v"), name("v")
    leporid("vhosts", "add", vhost)
    for more in ([], ["--dry-run"]):
        leporid("limits", "delete", "vhost", vhost, "max-queues", *more, code=3)
        assert leporid.error == f"leporid: there is no max-queues of vhost '{vhost}'\n"
        leporid("limits", "delete", "vhost", nowhere, "max-queues", *more, code=3)
        assert leporid.error == f"leporid: there is no virtual host '{nowhere}'\n"
        leporid("limits", "delete", "user", nowhere, "max-channels", *more, code=3)
        assert leporid.error == f"leporid: there is no user '{nowhere}'\n"
    assert leporid("limits", "delete", "vhost", vhost, "max-queues", "--ignore-not-found") == (
        f"there is no max-queues of vhost '{vhost}'\n"
    )
    leporid("limits", "delete", "vhost", nowhere, "max-queues", "--ignore-not-found", code=3)


def test_all_limits(leporid, name):
    vhost = name("v")
    leporid("vhosts", "add", vhost)
    leporid("limits", "delete", "vhost", vhost, "all", code=3)
    assert leporid.error == f"leporid: there is no limit of vhost '{vhost}'\n"
    leporid("limits", "set", "vhost", vhost, "max-queues", "1")
    leporid("limits", "set", "vhost", vhost, "max-connections", "2")
    said = leporid("limits", "delete", "vhost", vhost, "all", "--dry-run")
    assert said == f"would drop max-connections and max-queues of vhost '{vhost}'\n"
    said = leporid("limits", "delete", "vhost", vhost, "all")
    assert said == f"max-connections and max-queues of vhost '{vhost}' dropped\n"
    leporid("clear_vhost_limits", "-p", vhost)
    assert leporid.out == f"there is no limit of vhost '{vhost}'\n"
