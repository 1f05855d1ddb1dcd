"""A pytest plugin (``-p tests.dpu.on_upmem``, by ``make check-dpu``): the backend's tests on UPMEM's SDK.

What a test opens as "sim" opens as "upmem": real DPUs, or the vendor's simulator where UPMEM_PROFILE_BASE or
UPMEM_PROFILE says backend=simulator; with fewer DPUs than it asks for it gets all there are. Tests of our
simulator itself are left out, by name, as are those made for more DPUs than there are; pytest counts them as
deselected.
"""

from __future__ import annotations

from typing import Any

import pytest

from pybfv import native
from pybfv.errors import PybfvError

OURS = {
    "test_strict_mode_switches_tasklets_anywhere",
    "test_the_environment_chooses_the_mode",
    "test_info_and_stats",
    "test_a_missing_plugin_says_what_is_missing",
    "test_a_failing_launch_leaves_no_number",
    "test_limb_accumulators_keep_their_value_when_a_launch_fails",
}
"""Their subject is strict mode, or they break programs and compile them natively."""
TRIAL = (64, (67043329,))
DPUS = pytest.StashKey[int]()
MOST_DPUS = 4096
"""More are refused, which a test looks at."""


def pytest_configure(config: pytest.Config) -> None:
    opened = native.Backend.__init__
    try:
        with native.Backend("upmem", *TRIAL) as backend:
            there = backend.info()["dpus"]
    except PybfvError as e:
        pytest.exit(f"check-dpu: not run: {e}", returncode=69)

    def open_real(self: native.Backend, name: str, *arguments: Any, **options: Any) -> None:
        if name == "sim":
            name = "upmem"
            options.pop("strict", None)
            if there < options.get("dpus", 0) <= MOST_DPUS:
                options["dpus"] = there
        opened(self, name, *arguments, **options)

    native.Backend.__init__ = open_real  # type: ignore[method-assign]
    config.stash[DPUS] = there


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    there = config.stash[DPUS]

    def left_out(item: pytest.Item) -> bool:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        return getattr(item, "originalname", item.name) in OURS or parameters.get("dpus", 0) > there

    left = [item for item in items if left_out(item)]
    config.hook.pytest_deselected(items=left)
    items[:] = [item for item in items if item not in left]
