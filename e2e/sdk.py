"""The Python SDKs of Anthropic and OpenAI through a running service with simulated replicas.

Run by scripts/e2e-sdk, in an environment that has both SDKs.
"""

import asyncio
import json
import sys
import unittest

import anthropic
import openai

from warden import Warden

MODELS = """
[[models]]
name = "demo"
aliases = ["claude-*"]
[models.engine]
kind = "simulated"
data_parallel_size = 4
max_num_seqs = 32
speed = 50.0
"""

READ = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
SCRIPT = '[[script: Read {"path":"/tmp/a"}; say it is read]] Read it.'
# Long enough for some blocks of prefix cache.
LONG = "All work and no play makes a long prompt. " * 200


class Service(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.warden = cls.enterClassContext(Warden(MODELS))
        cls.anthropic = anthropic.Anthropic(
            base_url=cls.warden.url, api_key="unused", max_retries=0, timeout=60
        )
        cls.openai = openai.OpenAI(
            base_url=f"{cls.warden.url}/v1", api_key="unused", max_retries=0, timeout=60
        )


class Messages(Service):
    def test_a_whole_reply(self):
        reply = self.anthropic.messages.create(
            model="demo", max_tokens=64, messages=[{"role": "user", "content": "Hello"}]
        )
        self.assertEqual((reply.type, reply.role), ("message", "assistant"))
        self.assertTrue(reply.content[0].text)
        self.assertGreater(reply.usage.output_tokens, 0)

    def test_a_stream_adds_up_to_its_message(self):
        with self.anthropic.messages.stream(
            model="claude-sonnet-5",  # an alias
            max_tokens=64,
            system="Be brief.",
            messages=[{"role": "user", "content": "[[script: say one two three]]"}],
        ) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text.strip(), "one two three")
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.stop_reason, "end_turn")
        self.assertGreater(final.usage.output_tokens, 0)

    def test_a_tool_is_called_and_its_result_read(self):
        tools = [{"name": "Read", "description": "Reads a file", "input_schema": READ}]
        history = [{"role": "user", "content": SCRIPT}]
        with self.anthropic.messages.stream(
            model="demo", max_tokens=64, tools=tools, messages=history
        ) as stream:
            call = stream.get_final_message()
        self.assertEqual(call.stop_reason, "tool_use")
        use = next(block for block in call.content if block.type == "tool_use")
        self.assertEqual((use.name, use.input), ("Read", {"path": "/tmp/a"}))
        history += [
            {"role": "assistant", "content": call.content},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "text"}],
            },
        ]
        done = self.anthropic.messages.create(
            model="demo", max_tokens=64, tools=tools, messages=history
        )
        self.assertEqual(done.content[-1].text.strip(), "it is read")

    def test_a_conversation_returns_to_its_cache(self):
        metadata = {"user_id": json.dumps({"session_id": "sdk-messages"})}
        history = [{"role": "user", "content": LONG}]
        turns = []
        for _ in range(3):
            raw = self.anthropic.messages.with_raw_response.create(
                model="demo", max_tokens=32, metadata=metadata, messages=history
            )
            turns.append((raw.headers, raw.parse()))
            history.append({"role": "assistant", "content": turns[-1][1].content})
            history.append({"role": "user", "content": "Go on."})
        routes = [headers["x-lm-warden-route"] for headers, _ in turns]
        self.assertEqual(routes, ["new", "sticky", "sticky"])
        self.assertEqual(len({headers["x-lm-warden-replica"] for headers, _ in turns}), 1)
        for _, message in turns[1:]:
            self.assertGreater(message.usage.cache_read_input_tokens, 1500)

    def test_tokens_are_counted(self):
        count = self.anthropic.messages.count_tokens(
            model="demo", messages=[{"role": "user", "content": LONG}]
        )
        self.assertGreater(count.input_tokens, 1000)

    def test_models_are_listed(self):
        self.assertIn("demo", [model.id for model in self.anthropic.models.list()])
        self.assertEqual(self.anthropic.models.retrieve("demo").id, "demo")

    def test_errors_are_of_their_class(self):
        ask = {"max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}
        with self.assertRaises(anthropic.NotFoundError) as unknown:
            self.anthropic.messages.create(model="no-such-model", **ask)
        self.assertEqual(unknown.exception.body["type"], "error")
        self.assertIn("demo", str(unknown.exception))  # the known ones are listed
        with self.assertRaises(anthropic.BadRequestError):
            self.anthropic.messages.create(
                model="demo", extra_headers={"X-data-parallel-rank": "9"}, **ask
            )
        with self.assertRaises(anthropic.APIStatusError) as large:
            self.anthropic.messages.create(
                model="demo",
                max_tokens=8,
                messages=[{"role": "user", "content": "x" * (65 << 20)}],
            )
        self.assertEqual(large.exception.status_code, 413)

    def test_streams_at_once_do_not_mix(self):
        async def all_of_them():
            async with anthropic.AsyncAnthropic(
                base_url=self.warden.url, api_key="unused", max_retries=0, timeout=60
            ) as client:

                async def one(n):
                    async with client.messages.stream(
                        model="demo",
                        max_tokens=64,
                        messages=[{"role": "user", "content": f"[[script: say number {n}]]"}],
                    ) as stream:
                        return (await stream.get_final_text()).strip()

                return await asyncio.gather(*(one(n) for n in range(16)))

        self.assertEqual(asyncio.run(all_of_them()), [f"number {n}" for n in range(16)])


class OpenAI(Service):
    def test_chat_streams_with_usage(self):
        history = [{"role": "user", "content": LONG}]
        cached = []
        for _ in range(2):
            chunks = list(
                self.openai.chat.completions.create(
                    model="demo",
                    max_tokens=16,
                    stream=True,
                    stream_options={"include_usage": True},
                    messages=history,
                    extra_headers={"x-session-affinity": "sdk-chat"},
                )
            )
            text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            self.assertTrue(text)
            self.assertEqual(chunks[-1].choices, [])
            details = chunks[-1].usage.prompt_tokens_details
            cached.append(details.cached_tokens or 0 if details else 0)
            history += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": "Go on."},
            ]
        self.assertEqual(cached[0], 0)
        self.assertGreater(cached[1], 1500)

    def test_chat_without_a_stream_calls_a_tool(self):
        tool = {"type": "function", "function": {"name": "Read", "parameters": READ}}
        reply = self.openai.chat.completions.create(
            model="demo",
            max_tokens=64,
            tools=[tool],
            messages=[{"role": "user", "content": SCRIPT}],
        )
        call = reply.choices[0].message.tool_calls[0].function
        self.assertEqual((call.name, json.loads(call.arguments)), ("Read", {"path": "/tmp/a"}))
        self.assertEqual(reply.choices[0].finish_reason, "tool_calls")

    def test_completions(self):
        chunks = self.openai.completions.create(
            model="demo", prompt="Once upon a time", max_tokens=16, stream=True
        )
        self.assertTrue("".join(chunk.choices[0].text for chunk in chunks if chunk.choices))

    def test_responses_stream_to_their_end(self):
        events = list(
            self.openai.responses.create(
                model="demo",
                input="[[script: say hello there]]",
                stream=True,
                prompt_cache_key="sdk-responses",
            )
        )
        self.assertEqual(events[0].type, "response.created")
        self.assertEqual(events[-1].type, "response.completed")
        deltas = [e.delta for e in events if e.type == "response.output_text.delta"]
        self.assertEqual("".join(deltas).strip(), "hello there")
        self.assertEqual(events[-1].response.output_text, "".join(deltas))
        self.assertGreater(events[-1].response.usage.output_tokens, 0)

    def test_models_are_listed(self):
        self.assertIn("demo", [model.id for model in self.openai.models.list()])

    def test_errors_are_of_their_class(self):
        hello = [{"role": "user", "content": "Hello"}]
        with self.assertRaises(openai.NotFoundError) as unknown:
            self.openai.chat.completions.create(model="no-such-model", messages=hello)
        self.assertIn("demo", unknown.exception.message)
        with self.assertRaises(openai.BadRequestError):
            self.openai.chat.completions.create(
                model="demo", messages=hello, extra_headers={"X-data-parallel-rank": "9"}
            )
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.create(model="no-such-model", input="Hello")

    def test_a_stream_that_is_left_ends_in_the_engine_too(self):
        stream = self.openai.chat.completions.create(
            model="demo",
            max_tokens=20_000,
            stream=True,
            messages=[{"role": "user", "content": "[[script: write 20000]]"}],
            extra_headers={"x-session-affinity": "sdk-left"},
        )
        next(iter(stream))
        stream.close()
        self.eventually(lambda: self.in_flight() == 0)

    def in_flight(self):
        routing = self.warden.get("/models/demo")["routing"]
        return sum(replica["running"] or 0 for replica in routing["replicas"])

    def eventually(self, condition):
        for _ in range(200):
            if condition():
                return
            asyncio.run(asyncio.sleep(0.05))
        self.fail("not within 10 s")


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    failed = len(result.failures) + len(result.errors)
    print(f"sdk: {result.testsRun - failed - len(result.skipped)} passed, {failed} failed")
    sys.exit(failed > 0)
