"""What the tests against a real vLLM share. E2E_VLLM_HOME is the folder of scripts/vllm-cpu.

E2E_VLLM_URL names an engine that runs already, for quick repetition of the attached tests.
"""

import contextlib
import os
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import engine  # noqa: E402
from warden import Warden  # noqa: E402

EVENTUALLY_S_MAX = 60
POLL_S = 0.02


class Service(unittest.TestCase):
    """A folder for logs that is kept where a test fails."""

    @classmethod
    def setUpClass(cls):
        cls.install = engine.Install(pathlib.Path(os.environ["E2E_VLLM_HOME"]))
        cls.logs = pathlib.Path(tempfile.mkdtemp(prefix="lm-warden-e2e-vllm-"))
        print(f"logs: {cls.logs}", file=sys.stderr)

    @classmethod
    def start_engine(cls, ranks: int):
        if url := os.environ.get("E2E_VLLM_URL"):
            return contextlib.nullcontext(engine.Running(url))
        return engine.Engine(cls.install, ranks, cls.logs / "vllm.log")

    @classmethod
    def start_warden(cls, models: str, **more) -> Warden:
        return Warden(models, **more)

    def eventually(self, look, holds, within_s: float = EVENTUALLY_S_MAX):
        """What `look` gives once it holds."""
        deadline = time.monotonic() + within_s
        while True:
            seen = look()
            if holds(seen):
                return seen
            if time.monotonic() > deadline:
                self.fail(f"not within {within_s} s: {seen}")
            time.sleep(POLL_S)
