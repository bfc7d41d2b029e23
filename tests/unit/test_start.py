"""How the service's process begins."""

import gc

from service.__main__ import without_collecting


def test_garbage_is_looked_for_again_after_the_imports():
    """No search while modules are imported; afterwards there is one, which leaves what they hold alone."""
    left_alone = gc.get_freeze_count()
    with without_collecting():
        assert not gc.isenabled()
        made: list[list[int]] = [[] for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() >= left_alone + len(made)


def test_tests_leave_alone_what_they_imported():
    """This process looks for garbage, but not in the modules of all its tests (tests/harness/garbage.py)."""
    assert gc.isenabled()
    assert gc.get_freeze_count()
