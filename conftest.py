"""What holds for all tests, those in docstrings too: operators that one of them adds are gone after it."""

import pytest


@pytest.fixture(autouse=True)
def _kernels_as_before():
    from mdf_loop.kernels import load_kernels
    from mdf_loop.ops import registry

    load_kernels()
    before, said = registry.changes(), set(registry.SAID_BY_OTHERS)
    kept = {key: list(versions) for key, versions in registry.KERNELS.items()}
    yield
    if registry.changes() != before or said != registry.SAID_BY_OTHERS:
        registry.KERNELS.clear()
        registry.KERNELS.update(kept)
        registry.SAID_BY_OTHERS.intersection_update(said)
        registry.lookup.cache_clear()
        registry._changes += 1
