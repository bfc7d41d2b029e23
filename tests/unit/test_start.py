"""How the service's process begins."""

import gc

from service.__main__ import without_collecting


def test_garbage_is_looked_for_again_after_the_imports():
    """No search while modules are imported; afterwards there is one, which leaves what they hold alone."""
    try:
        with without_collecting():
            assert not gc.isenabled()
        assert gc.isenabled()
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
