"""`kind = "attached"`: the service before a vLLM with two ranks that somebody else runs.

What is claimed about the engine is read from the engine's own counters, not from the warden's.
"""

import json
import time
import unittest

import client
import engine
from client import CHAT, COMPLETIONS, MESSAGES, RESPONSES, words
from setup import Service

RANKS = 2
CANCEL_S_MAX = 0.5
TURNS = 4
# Odd, so that a balancer that goes round in turn does not return to the same rank by parity.
CONVERSATIONS = 5
OWN_CACHED_MIN = 0.85
OFF_BELOW_BY = 0.2


def config(url: str) -> str:
    return f"""
[[models]]
name = "tiny"
aliases = ["claude-*"]
[models.engine]
kind = "attached"
url = "{url}"
data_parallel_size = {RANKS}
max_num_seqs = {engine.SEQUENCES}
"""


class Attached(Service):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.engine = cls.enterClassContext(cls.start_engine(RANKS))
        cls.warden = cls.enterClassContext(cls.start_warden(config(cls.engine.url)))

    def settled(self) -> engine.Metrics:
        """The engine's counters once it has nothing to do."""
        return self.eventually(self.engine.metrics, lambda metrics: metrics.busy() == 0)

    # --- Routing ----------------------------------------------------------------------------------

    def test_a_pin_reaches_its_rank(self):
        for api in (MESSAGES, CHAT, COMPLETIONS):
            for rank in range(RANKS):
                before = self.settled()
                pin = {"X-data-parallel-rank": str(rank)}
                reply = client.post(self.warden.url, api.path, api.body("Hello", 4), pin)
                self.assertEqual((reply.status, reply.replica), (200, str(rank)), reply.body)
                after = self.settled()
                served = [
                    after.of("request_success_total", r) - before.of("request_success_total", r)
                    for r in range(RANKS)
                ]
                self.assertEqual(served, [float(r == rank) for r in range(RANKS)], api.path)

    def test_affinity_finds_a_conversations_own_tokens_and_without_it_they_are_computed(self):
        shares = {}
        for affinity in (True, False):
            self.warden.patch("/models/tiny/routing", {"affinity": affinity})
            shares[affinity] = self.own_cached_share(f"affinity {affinity}")
        self.warden.patch("/models/tiny/routing", {"affinity": True})
        print(f"own tokens cached: {shares[True]:.1%} with affinity, {shares[False]:.1%} without")
        self.assertGreater(shares[True], OWN_CACHED_MIN)
        self.assertLess(shares[False], shares[True] - OFF_BELOW_BY)

    def own_cached_share(self, arm: str) -> float:
        """Of the tokens that a conversation had before a turn, those that vLLM found cached.

        The conversations have no common prefix, so all that is cached is a conversation's own.
        """
        histories = [[] for _ in range(CONVERSATIONS)]
        own_tokens = 0
        before = self.settled()
        for turn in range(TURNS):
            for number, history in enumerate(histories):
                history.append({"role": "user", "content": words(250, f"{arm} {number} {turn}")})
                body = {"model": "tiny", "max_tokens": 16, "messages": history}
                session = {"x-claude-code-session-id": f"{arm} {number}"}
                reply = client.post(self.warden.url, MESSAGES.path, body, session)
                self.assertEqual(reply.status, 200, reply.body)
                history.append({"role": "assistant", "content": reply.body["content"]})
                if turn < TURNS - 1:
                    prompt, _, completion = MESSAGES.usage(reply.body)
                    own_tokens += prompt + completion
        after = self.settled()
        family = "prompt_tokens_cached_total"
        return (after.total(family) - before.total(family)) / own_tokens

    # --- Usage ------------------------------------------------------------------------------------

    def test_every_api_reports_cached_tokens(self):
        for api in (MESSAGES, CHAT, COMPLETIONS, RESPONSES):
            with self.subTest(api=api.path):
                # vLLM's own balancer places /v1/responses, so both ranks are warmed.
                text = words(200, api.path)
                session = {"x-claude-code-session-id": f"usage of {api.path}"}
                for _ in range(2 * RANKS):
                    client.post(self.warden.url, api.path, api.body(text, 4), session)
                whole = client.post(self.warden.url, api.path, api.body(text, 4), session)
                self.check_usage(api.usage(whole.body), whole.headers)
                more = {}
                if api in (CHAT, COMPLETIONS):
                    more = {"stream_options": {"include_usage": True}}
                body = api.body(text, 4, **more)
                stream = client.stream(self.warden.url, api.path, body, session)
                usages = [u for u in map(api.usage, stream.events()) if u]
                self.check_usage(usages[-1], stream.headers)

    def check_usage(self, usage, headers):
        """What the client saw is what the warden counted."""
        prompt, cached, completion = usage
        self.assertGreater(cached, prompt / 2)
        record = self.warden.request(headers["x-lm-warden-request-id"])
        counted = [record[k] for k in ("prompt_tokens", "cached_tokens", "completion_tokens")]
        self.assertEqual(counted, [prompt, cached, completion])

    # --- Cancelling -------------------------------------------------------------------------------

    def test_a_cancelled_decode_ends_in_the_engine(self):
        def begin(attempt):
            body = CHAT.body(f"Go on {attempt}", 8000, ignore_eos=True)
            stream = client.stream(self.warden.url, CHAT.path, body)
            next(stream.events())
            return stream

        self.check_cancel(begin)

    def test_a_cancelled_prefill_ends_in_the_engine(self):
        def begin(attempt):
            body = CHAT.body(words(3800, f"prefill {attempt}"), 8)
            connection = client.send(self.warden.url, CHAT.path, body)
            self.eventually(self.engine.metrics, lambda metrics: metrics.busy() > 0)
            return connection

        self.check_cancel(begin)

    def check_cancel(self, begin):
        took_s = []
        for attempt in range(3):
            self.settled()
            running = begin(attempt)
            self.assertGreater(self.engine.metrics().busy(), 0, "over before it was cancelled")
            left = time.monotonic()
            running.close()
            self.settled()
            took_s.append(time.monotonic() - left)
        print(f"gone from the engine after {', '.join(f'{s:.2f} s' for s in took_s)}")
        # What else the machine does can only add to it.
        self.assertLess(min(took_s), CANCEL_S_MAX)

    # --- Errors -----------------------------------------------------------------------------------

    def test_an_over_long_prompt(self):
        text = words(5000, "too long")
        for api in (MESSAGES, CHAT, COMPLETIONS):
            reply = client.post(self.warden.url, api.path, api.body(text, 8))
            self.show(api, reply)
            self.assertIn("maximum context length", json.dumps(reply.body))
            self.check_not_worth_a_retry(reply)

    def test_a_bad_sampling_parameter(self):
        for api in (MESSAGES, CHAT, COMPLETIONS, RESPONSES):
            reply = client.post(self.warden.url, api.path, api.body("Hello", 4, temperature=-1))
            self.show(api, reply)
            self.assertIn(reply.status, (400, 500))
            self.assertIn("temperature", json.dumps(reply.body))
            self.check_not_worth_a_retry(reply)

    def check_not_worth_a_retry(self, reply: client.Reply):
        """A client sends a 500 again, unless it is told that this is in vain."""
        if reply.status == 500:
            self.assertEqual(reply.headers.get("x-should-retry"), "false", reply.body)

    def test_an_unknown_model(self):
        for api in (MESSAGES, CHAT, COMPLETIONS, RESPONSES):
            body = {**api.body("Hello", 4), "model": "no-such-model"}
            reply = client.post(self.warden.url, api.path, body)
            self.show(api, reply)
            self.assertEqual(reply.status, 404)
            self.assertIn("tiny", reply.body["error"]["message"])

    def test_an_alias_reaches_the_model(self):
        body = {**MESSAGES.body("Hello", 4), "model": "claude-sonnet-5"}
        self.assertEqual(client.post(self.warden.url, MESSAGES.path, body).status, 200)

    def show(self, api, reply):
        retry = reply.headers.get("x-should-retry", "-")
        print(f"  {api.path}: {reply.status}, x-should-retry {retry}, {json.dumps(reply.body)[:160]}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
