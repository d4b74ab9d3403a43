from tests.broker.exchange.types.bindings import binding, message, queues

from leporid.broker.exchange.types.direct import DirectRouter


def test_matches_the_equal_key_and_no_other():
    router = DirectRouter()
    router.add(binding("a", queue="one"))
    router.add(binding("b", queue="two"))
    router.add(binding("a", queue="three"))
    assert queues(router, "a") == ["one", "three"]
    assert queues(router, "b") == ["two"]
    assert queues(router, "") == queues(router, "a.b") == queues(router, "*") == []


def test_wildcards_are_ordinary_characters():
    router = DirectRouter()
    router.add(binding("#"))
    assert queues(router, "#") == ["q"]
    assert queues(router, "a") == []


def test_one_queue_may_be_bound_several_times():
    router = DirectRouter()
    plain, other = binding("a"), binding("a", {"n": 1})
    router.add(plain)
    router.add(other)
    router.remove(plain)
    assert list(router.match(message("a"))) == [other]
    router.remove(other)
    assert queues(router, "a") == []


def test_a_key_concerns_only_itself():
    assert DirectRouter().only_key("a.*") == "a.*"
    assert DirectRouter().only_key("") == ""


def test_keys_that_come_and_go_leave_nothing_behind():
    router = DirectRouter()
    for number in range(100):
        router.add(binding(f"k{number}"))
        router.remove(binding(f"k{number}"))
    assert len(vars(router)["_by_key"]) == 0


def test_each_of_several_keys_meets_its_bindings():
    router = DirectRouter()
    one, other = binding("a"), binding("b")
    router.add(one)
    router.add(other)
    assert list(router.match(message("b", "none", "a"))) == [other, one]
