"""Claude Code, headless, through the service and a real vLLM. E2E_CLAUDE is its binary.

The tiny model writes nonsense: what is shown is that the requests are served, that a conversation
keeps its replica, and that its second turn finds the first in the cache.
"""

import json
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

import engine
import supervised
from setup import POLL_S, Service

# Claude Code's tools and system prompt alone are 16,000 tokens and more.
CONTEXT_TOKENS = 32_768
TURN_S_MAX = 300
# The model draws its tokens nearly alike and would not end by itself: one in so many ends its reply.
END_EVERY = 24
VOCABULARY = 8192
# Reached once in 10^9 replies; Claude Code takes a reply that is cut there for a failure.
OUTPUT_TOKENS_MAX = 512


class Claude(Service):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        ends = cls.logs / "generation"
        ends.mkdir()
        tokens = {"eos_token_id": [2, *range(300, VOCABULARY, END_EVERY)]}
        (ends / "generation_config.json").write_text(json.dumps(tokens))
        arguments = engine.arguments(cls.install, CONTEXT_TOKENS)
        arguments += ["--generation-config", str(ends)]
        models = supervised.config(cls.install, "", arguments)
        models = models.replace('name = "tiny"', 'name = "tiny"\naliases = ["claude-*"]')
        cls.warden = cls.enterClassContext(cls.start_warden(models, start_s_max=engine.START_S_MAX))
        cls.addClassCleanup(cls.stop)
        cls.home = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    @classmethod
    def stop(cls):
        """An engine that has not ended by the warden's end is left to the next one."""
        cls.warden.post("/models/tiny/stop")
        deadline = time.monotonic() + engine.STOP_S_MAX
        while cls.warden.get("/models/tiny")["state"] != "stopped" and time.monotonic() < deadline:
            time.sleep(POLL_S)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess:
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": self.warden.url,
            "ANTHROPIC_API_KEY": "unused",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(OUTPUT_TOKENS_MAX),
        }
        for model in ("", "SMALL_FAST_", "DEFAULT_HAIKU_", "DEFAULT_SONNET_", "DEFAULT_OPUS_"):
            environment[f"ANTHROPIC_{model}MODEL"] = "tiny"
        return subprocess.run(
            [os.environ["E2E_CLAUDE"], "-p", *arguments, "--dangerously-skip-permissions"],
            cwd=self.home,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TURN_S_MAX,
        )

    def test_a_session_of_two_turns(self):
        for arguments in (("Say hello.",), ("Say it again.", "--continue")):
            done = self.ask(*arguments)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        records = self.warden.get("/requests?limit=100")["requests"]
        turns = [r for r in records if r["route"] in ("new", "sticky") and r["status"] == 200]
        turns.sort(key=lambda record: record["t"])
        main = [turn for turn in turns if turn["session"] == turns[-1]["session"]]
        print([(t["route"], t["replica"], t["prompt_tokens"], t["cached_tokens"]) for t in main])
        self.assertGreaterEqual(len(main), 2)
        self.assertEqual(len({turn["replica"] for turn in main}), 1)
        self.assertEqual(main[-1]["route"], "sticky")
        self.assertGreater(main[-1]["cached_tokens"], main[-1]["prompt_tokens"] * 0.9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
