"""More conversations than the caches hold: affinity alone against leases, before a real vLLM.

The hit rates are the engine's own. Both arms speak to the same engine and send the same amount of
text; no conversation is in both.
"""

import concurrent.futures
import time
import unittest

import attached
import client
import engine
from client import MESSAGES, words
from setup import Service

# Two caches of 17,600 tokens for conversations of 3,000 to 5,000.
CONVERSATIONS = 20
TURNS = 12
FIRST_WORDS = 1100
TURN_WORDS = 60
ANSWER_TOKENS = 16
HITS_MORE_BY = 0.1


class Overload(Service):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.engine = cls.enterClassContext(cls.start_engine(attached.RANKS))
        cls.warden = cls.enterClassContext(cls.start_warden(attached.config(cls.engine.url)))

    def test_leases_keep_more_of_the_cache_than_affinity_alone(self):
        hits = {}
        for leases in ("off", "auto"):
            self.warden.patch("/models/tiny/routing", {"leases": leases})
            began = time.monotonic()
            before = self.engine.metrics()
            with concurrent.futures.ThreadPoolExecutor(CONVERSATIONS) as pool:
                numbers = range(CONVERSATIONS)
                waits_ms = list(pool.map(lambda n, arm=leases: self.converse(f"{arm} {n}"), numbers))
            after = self.engine.metrics()
            hits[leases] = self.grown("prompt_tokens_cached_total", before, after) / self.grown(
                "prompt_tokens_total", before, after
            )
            took_s = time.monotonic() - began
            print(
                f"leases {leases}: {hits[leases]:.1%} of the prompt tokens were cached,"
                f" {CONVERSATIONS * TURNS / took_s:.2f} turns/s,"
                f" {sum(ms > 100 for waits in waits_ms for ms in waits)} turns waited here"
            )
        self.assertGreater(hits["auto"], hits["off"] + HITS_MORE_BY)

    @staticmethod
    def grown(family: str, before: engine.Metrics, after: engine.Metrics) -> float:
        return after.total(family) - before.total(family)

    def converse(self, name: str) -> list[int]:
        """All turns of a conversation; how long each waited before it was sent to a replica."""
        history, waits_ms = [], []
        for turn in range(TURNS):
            count = TURN_WORDS if turn else FIRST_WORDS
            history.append({"role": "user", "content": words(count, f"{name} {turn}")})
            body = {
                "model": "tiny",
                "max_tokens": ANSWER_TOKENS,
                "messages": history,
            }
            reply = client.post(
                self.warden.url, MESSAGES.path, body, {"x-claude-code-session-id": name}
            )
            self.assertEqual(reply.status, 200, reply.body)
            waits_ms.append(int(reply.headers["x-lm-warden-queue-ms"]))
            history.append({"role": "assistant", "content": reply.body["content"]})
        return waits_ms


if __name__ == "__main__":
    unittest.main(verbosity=2)
