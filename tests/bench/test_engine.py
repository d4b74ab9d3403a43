import pytest
from bench.engine import CASES, Rig, by_function, main


@pytest.mark.parametrize("name", CASES)
def test_each_case_moves_every_message(name: str):
    rig = Rig(CASES[name])
    rig.run(12)
    rig.check(12)


def test_prints_a_rate_for_each_case(capsys: pytest.CaptureFixture[str]):
    assert main(["auto", "--turns", "10", "--repeats", "1"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["case", "messages/s", "ns", "each"]
    assert line.startswith("auto ")


def test_counts_what_each_function_spent_itself():
    # The second function was on its way before: valgrind counts no call of it, but what it called.
    text = """\
events: Ir

fl=(1) a.c
fn=(7) take'2
12 30
cfn=(9) __pyx_f_7leporid_6engine_5queue_5queue_5Queue_pop
calls=3 40
+1 600
* 5

fn=(9)
40 590
+2
fn=(8) main
cfn=(7)
calls=0 12
-3 635
"""
    assert by_function(text) == {"take": 35, "queue_5Queue_pop": 590}
