"""Administration in the web UI: the main act of each page, by mouse and by keyboard alone."""

from __future__ import annotations

import json
import re

import pytest
from tests.webui.browsing import Hands, Tab
from tests.webui.example import Api

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
expect = sync_api.expect
pytestmark = pytest.mark.slow


def name_for(hands: Hands, begin: str) -> str:
    """A name of its own for each way to act, as both use one broker."""
    return f"{begin}-{type(hands).__name__.lower()}"


def test_a_user_is_added_with_tags_and_permissions(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "eve")
    tab.open("users")
    hands.press(tab.button("Add user"))
    hands.type(tab.field("Name"), name)
    hands.type(tab.field("Password"), "s3cret")
    hands.type(tab.field("Password again"), "s3cret")
    hands.check(tab.field("monitoring"))
    hands.choose(tab.field("All permissions in"), "shop")
    hands.press(tab.button("Add user", within=tab.dialog))
    expect(tab.notice(f"User {name} is set.")).to_be_visible()
    expect(tab.row(name)).to_contain_text("monitoring")
    expect(tab.row(name).get_by_role("link", name="shop")).to_be_visible()
    assert api.get("permissions", "shop", name)["read"] == ".*"
    theirs = Api(api.port, (name, "s3cret"))
    assert theirs.get("whoami")["tags"] == ["monitoring"]
    theirs.close()


def test_a_user_without_permissions_is_told_and_given_some(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "nobody")
    tab.open("users")
    hands.press(tab.button("Add user"))
    hands.type(tab.field("Name"), name)
    hands.press(tab.button("Add user", within=tab.dialog))
    notice = tab.notice("has no permissions yet")
    expect(notice).to_contain_text(name)
    hands.press(notice.get_by_role("link"))
    expect(tab.page.get_by_role("heading", name=f"User {name}")).to_be_visible()
    hands.choose(tab.field("In virtual host"), "shop")
    hands.press(tab.button("Set permissions …"))
    hands.press(tab.button("Consume only"))
    hands.press(tab.button("Set permissions", within=tab.dialog))
    expect(tab.row("shop")).to_contain_text(".*")
    assert api.get("permissions", "shop", name)["read"] == ".*"


def test_a_user_is_not_added_with_two_passwords(tab: Tab, api: Api):
    tab.open("users")
    tab.button("Add user").click()
    tab.field("Name").fill("mistaken")
    tab.field("Password").fill("one")
    tab.field("Password again").fill("other")
    tab.button("Add user", within=tab.dialog).click()
    expect(tab.dialog.get_by_role("alert")).to_contain_text("differ")
    assert "mistaken" not in [user["name"] for user in api.get("users")]


def test_other_tags_leave_the_password_as_it_is(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "tom")
    api.put("users", name, body={"password": "kept", "tags": "management"})
    tab.open("users", name)
    hands.press(tab.button("Change tags"))
    hands.check(tab.field("policymaker"))
    hands.press(tab.button("Change tags", within=tab.dialog))
    expect(tab.notice("The tags are changed.")).to_be_visible()
    theirs = Api(api.port, (name, "kept"))
    assert theirs.get("whoami")["tags"] == ["management", "policymaker"]
    theirs.close()


def test_a_user_is_deleted_once_its_name_is_typed(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "gone")
    api.put("users", name, body={"password": "x", "tags": ""})
    tab.open("users", name)
    hands.press(tab.button("Delete user"))
    sure = tab.button("Delete user", within=tab.dialog)
    expect(sure).to_be_disabled()
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(sure)
    expect(tab.page.get_by_role("heading", name="Users", exact=True)).to_be_visible()
    assert name not in [user["name"] for user in api.get("users")]


def test_limits_and_topic_permissions_of_a_user(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "limited")
    api.put("users", name, body={"password": "x", "tags": ""})
    tab.open("users", name)
    hands.type(tab.page.get_by_role("textbox", name="max-channels"), "7")
    form = tab.page.locator("form").filter(has_text="max-channels")
    hands.press(tab.button("Set", within=form))
    expect(tab.notice("max-channels is 7.")).to_be_visible()
    assert api.get("user-limits", name)[0]["value"] == {"max-channels": 7}
    hands.press(tab.button("Add topic permission"))
    hands.type(tab.field("Publish with keys"), "^shop")
    hands.press(tab.button("Set topic permission"))
    expect(tab.row("amq.topic")).to_contain_text("^shop")
    (found,) = api.get("users", name, "topic-permissions")
    assert (found["vhost"], found["write"], found["read"]) == ("/", "^shop", "")


def test_a_cell_of_the_matrix_is_changed(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "mia")
    api.put("users", name, body={"password": "x", "tags": ""})
    tab.open("permissions", user=name).settled()
    hands.press(tab.page.get_by_label(f"{name} in /: no permissions", exact=True))
    hands.press(tab.button("Consume only"))
    hands.type(tab.field("Read"), "^orders$")
    hands.press(tab.button("Set permissions", within=tab.dialog))
    expect(tab.notice(f"Permissions of {name} in / are set.")).to_be_visible()
    found = api.get("permissions", "/", name)
    assert (found["configure"], found["write"], found["read"]) == ("^$", "^$", "^orders$")
    expect(tab.page.get_by_label(f"{name} in /: configure ^$", exact=False)).to_be_visible()


def test_arrows_move_between_the_cells_of_the_matrix(tab: Tab):
    tab.open("permissions").settled()
    cells = tab.page.locator(".cell")
    tab.focus(cells.first)
    for key, at in (("ArrowRight", "0-1"), ("ArrowDown", "1-1"), ("Home", "1-0")):
        tab.page.keyboard.press(key)
        expect(tab.page.locator(f"[data-at='{at}']")).to_be_focused()
    assert cells.and_(tab.page.locator("[tabindex='0']")).count() == 1


def test_a_virtual_host_is_added_changed_and_deleted(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "host")
    tab.open("vhosts")
    hands.press(tab.button("Add virtual host"))
    hands.type(tab.field("Name"), name)
    hands.type(tab.field("Description"), "for a while")
    hands.press(tab.button("Add virtual host", within=tab.dialog))
    expect(tab.row(name)).to_contain_text("for a while")
    hands.press(tab.page.get_by_role("link", name=name, exact=True))
    hands.press(tab.button("Edit"))
    hands.type(tab.field("Description"), "for good")
    hands.press(tab.button("Save"))
    expect(tab.page.locator(".key")).to_contain_text("for good")
    hands.press(tab.button("Delete virtual host"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete virtual host", within=tab.dialog))
    expect(tab.page.get_by_role("heading", name="Virtual hosts", exact=True)).to_be_visible()
    assert name not in [each["name"] for each in api.get("vhosts")]


def test_a_protected_virtual_host_says_why_it_stays(tab: Tab, api: Api):
    api.put("vhosts", "kept")
    tab.open("vhosts", "kept")
    tab.button("Protect").click()
    expect(tab.notice("Nobody can delete it now.")).to_be_visible()
    refused = tab.button("Delete virtual host")
    expect(refused).to_have_attribute("title", "It is protected from deletion.")
    refused.click(force=True)
    expect(tab.dialog).to_have_count(0)
    tab.button("Unprotect").click()
    expect(tab.notice("It may be deleted again.")).to_be_visible()


def test_a_policy_is_previewed_before_it_is_added(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "bound")
    api.put("queues", "/", name, body={"durable": True})
    for _ in range(5):
        api.publish("/", "amq.default", name, "x")
    tab.open("policies", "new")
    hands.type(tab.field("Name"), name)
    hands.type(tab.field("Pattern"), f"^({name}|late)$")
    hands.type(tab.field("Priority"), "9")
    hands.type(tab.field("Value 1"), "4")
    preview = tab.page.locator(".preview")
    expect(preview).to_contain_text("1 queue governed from then on; 1 queue taken over.")
    expect(preview.get_by_role("row", name="late")).to_contain_text("short")
    expect(preview).to_contain_text("1 message above the new max-length")
    assert name not in [each["name"] for each in api.get("policies")]
    hands.press(tab.button("Add policy"))
    expect(tab.page.get_by_role("heading", name=f"Policy {name}")).to_be_visible()
    assert api.get("policies", "/", name)["definition"] == {"max-length": 4}
    hands.press(tab.button("Delete policy"))
    expect(tab.dialog).to_contain_text("let go")
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete policy", within=tab.dialog))
    expect(tab.page.get_by_role("heading", name="Policies", exact=True)).to_be_visible()
    assert name not in [each["name"] for each in api.get("policies")]


def test_what_is_no_policy_is_told_while_it_is_typed(tab: Tab):
    tab.open("policies", "new")
    tab.field("Value 1").fill("many")
    expect(tab.page.locator(".preview")).to_contain_text("is not a valid maximum length")
    tab.field("Value 1").fill("5")
    tab.field("Pattern").fill("(")
    expect(tab.page.locator(".preview")).to_contain_text("regular expression")


def test_definitions_are_imported_after_their_difference_was_shown(
    tab: Tab, hands: Hands, api: Api
):
    name = name_for(hands, "imported")
    queues = [
        {"name": name, "vhost": "/", "durable": True, "auto_delete": False},
        {"name": "orders", "vhost": "/", "durable": False, "auto_delete": False},
    ]
    tab.open("definitions")
    # Keys would be slow for so much text, and brackets are not what is tested.
    tab.field("Or the document itself").fill(json.dumps({"queues": queues}))
    hands.press(tab.button("Show what would change"))
    changes = tab.page.locator(".changes")
    expect(changes).to_contain_text(name)
    expect(changes.locator(".conflicting")).to_contain_text("durable")
    assert name not in [each["name"] for each in api.get("queues", "/")]
    expect(tab.page.locator("main")).to_contain_text("1 conflict stays as it is.")
    hands.press(tab.button("Import 1 change …"))
    hands.press(tab.button("Import", within=tab.dialog))
    expect(tab.notice("It is imported.")).to_be_visible()
    assert name in [each["name"] for each in api.get("queues", "/")]


def test_definitions_are_saved_as_a_file(tab: Tab, hands: Hands):
    tab.open("definitions")
    with tab.page.expect_download() as download:
        hands.press(tab.button("Download leporid.json"))
    found = json.loads(download.value.path().read_text())
    assert {"alice", "carl"} <= {user["name"] for user in found["users"]}


def test_a_filter_class_is_registered_and_shown(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "class")
    tab.open("filter-classes")
    hands.press(tab.button("Register class"))
    hands.type(tab.field("Name"), name)
    hands.press(tab.button("Register"))
    expect(tab.notice(f"Filter class {name} is registered.")).to_be_visible()
    hands.press(tab.page.get_by_role("link", name=name, exact=True))
    expect(tab.page.locator(".source")).to_contain_text("def match(self, message)")
    assert api.get("filter-classes", name)["version"] == 1


def test_a_class_that_does_not_load_is_refused_with_its_error(tab: Tab):
    tab.open("filter-classes")
    tab.button("Register class").click()
    tab.field("Name").fill("broken")
    tab.field("Source").fill("class Filter:\n    pass\n")
    tab.button("Register").click()
    expect(tab.dialog.get_by_role("alert")).to_contain_text("match")


def test_the_position_of_a_reader_is_shown_with_its_lag(tab: Tab):
    tab.open("pipelines").settled()
    cells = tab.row("archive").locator("td")
    expect(cells.nth(5)).to_have_text("12")
    expect(cells.nth(7)).to_have_text("8")


def test_runs_of_pipelines_are_shown_and_forgotten(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "archive")
    now_ms = api.get("streams", "/", "flights")["partitions"][0]["last_timestamp_ms"]
    told = {"pipeline": "archive", "stream": "flights", "started_ms": now_ms - 60_000}
    failed = {**told, "state": "failed", "error": "the disk is full", "put_aside": 7}
    api.put("pipelines", "/", name, body=failed)
    body = {**told, "state": "running", "started_ms": now_ms, "records": 1234, "lag": 5}
    api.put("pipelines", "/", name, body=body)
    tab.open("pipelines", vhost="/", tab="runs").settled()
    expect(tab.row(name)).to_contain_text("running")
    expect(tab.row(name)).to_contain_text("1,234")
    expect(tab.page.locator(".same")).to_contain_text(
        "leporid pipelines list --sort reported_ms --reverse --vhost /"
    )
    hands.press(tab.button(f"Runs of {name}"))
    expect(tab.dialog.locator("tbody tr")).to_have_count(2)
    expect(tab.dialog).to_contain_text("the disk is full")
    hands.press(tab.button("Forget this pipeline"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Forget", within=tab.dialog))
    expect(tab.row(name)).to_have_count(0)


def test_who_did_what_is_listed_and_narrowed(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "audited")
    api.put("users", name, body={"password": "x", "tags": ""})
    tab.open("audit").settled()
    done = tab.row(f"/api/users/{name}").first
    expect(done).to_contain_text("PUT")
    expect(done).to_contain_text("guest")
    expect(done).to_contain_text("done")
    hands.choose(tab.page.get_by_role("combobox", name="Outcome"), "Outcome: refused")
    tab.page.wait_for_url(re.compile("outcome=refused"))
    expect(tab.row(f"/api/users/{name}")).to_have_count(0)
    tab.go("audit", user="nobody-else")
    expect(tab.page.locator("main")).to_contain_text("Nobody has changed anything")


def test_a_limit_is_set_and_dropped(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "narrow")
    api.put("vhosts", name)
    tab.open("limits")
    box = tab.page.locator("section").filter(
        has=tab.page.get_by_role("heading", name="Virtual hosts")
    )
    hands.choose(tab.field("Virtual host", within=box), name)
    hands.type(tab.field("Value", within=box), "12")
    hands.press(tab.button("Set limit", within=box))
    expect(tab.row(name)).to_contain_text("12")
    hands.type(box.get_by_role("searchbox"), "shop")
    expect(tab.row(name)).to_have_count(0)
    expect(tab.row("shop")).to_contain_text("100")
    tab.page.wait_for_url("**/#/limits?vhost-name=shop")
    hands.type(box.get_by_role("searchbox"), name)
    hands.press(tab.button(f"Drop max-connections of {name}"))
    expect(tab.row(name)).to_have_count(0)
    assert api.get("vhost-limits", name) == []


def test_a_global_parameter_is_set_and_deleted(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "parameter")
    tab.open("parameters")
    hands.press(tab.button("Set parameter"))
    hands.type(tab.field("Name"), name)
    hands.type(tab.field("Value"), '{"a": [1, 2]}')
    hands.press(tab.button("Set parameter", within=tab.dialog))
    expect(tab.row(name)).to_contain_text('{"a":[1,2]}')
    assert api.get("global-parameters", name)["value"] == {"a": [1, 2]}
    hands.press(tab.button(f"Delete {name}"))
    hands.type(tab.dialog.get_by_role("textbox"), name)
    hands.press(tab.button("Delete parameter", within=tab.dialog))
    expect(tab.row(name)).to_have_count(0)


def test_a_backup_is_made(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "backup")
    tab.open("backups")
    hands.type(tab.field("Name"), name)
    hands.press(tab.button("Make a backup"))
    expect(tab.row(name)).to_be_visible()
    assert name in [each["name"] for each in api.get("backups")]


def test_the_broker_gets_another_name(tab: Tab, hands: Hands, api: Api):
    name = name_for(hands, "called")
    tab.open("feature-flags").settled()
    expect(tab.row("quorum_queue")).to_contain_text("enabled")
    hands.type(tab.field("What it is called"), name)
    hands.press(tab.button("Rename"))
    expect(tab.notice(f"The broker is called {name}.")).to_be_visible()
    assert api.get("cluster-name")["name"] == name
