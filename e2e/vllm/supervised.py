"""`kind = "vllm"`: the service starts a real vLLM, outlives it, and is outlived by it.

Each class is one story, told in the order of the tests' names, because a start takes minutes.
"""

import http.client
import json
import os
import pathlib
import signal
import threading
import time
import unittest

import client
import engine
from client import CHAT, MESSAGES, words
from setup import Service

RANKS = 2
RECOVERY_S_MAX = engine.START_S_MAX


def config(install: engine.Install, more: str, arguments: list[str]) -> str:
    def table(values):
        return "{ " + ", ".join(f'{k} = "{v}"' for k, v in values.items()) + " }"

    return f"""
[[models]]
name = "tiny"
[models.engine]
kind = "vllm"
model = "{install.model}"
executable = "{install.executable}"
dtype = "bfloat16"
data_parallel_size = {RANKS}
max_num_seqs = {engine.SEQUENCES}
tool_call_parser = "hermes"
args = {json.dumps(arguments)}
env = {table(engine.ENVIRONMENT)}
{more}
"""


class Process:
    """A process and what it started, as /proc shows them."""

    def __init__(self, pid: int):
        self.pid = pid

    @classmethod
    def all(cls) -> list["Process"]:
        return [cls(int(p.name)) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit()]

    def _read(self, name: str) -> bytes:
        try:
            return pathlib.Path(f"/proc/{self.pid}/{name}").read_bytes()
        except OSError:
            return b""

    def belongs_to(self, record: dict) -> bool:
        """By its group, or by the mark in its environment (which a title may have overwritten)."""
        mark = f"LM_WARDEN_ENGINE={record['mark']}".encode()
        fields = self._read("stat").rpartition(b")")[2].split()
        is_alive = len(fields) > 2 and fields[0] != b"Z"
        in_group = is_alive and int(fields[2]) == record["process"]["pid"]
        return in_group or mark in self._read("environ").split(b"\0")

    @property
    def title(self) -> str:
        return self._read("cmdline").replace(b"\0", b" ").decode(errors="replace")

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)


class Supervised(Service):
    more = ""

    @classmethod
    def arguments(cls) -> list[str]:
        return engine.arguments(cls.install)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.warden = cls.start_warden(
            config(cls.install, cls.more, cls.arguments()), start_s_max=engine.START_S_MAX
        )
        cls.addClassCleanup(cls.end_everything)
        cls.warden.__enter__()

    @classmethod
    def end_everything(cls):
        records = cls.records()
        cls.warden.__exit__()
        for record in records:
            for process in cls.processes(record):
                process.kill()

    @classmethod
    def records(cls) -> list[dict]:
        """What the warden keeps of its running engines, by server."""
        paths = sorted(cls.warden.data_dir.glob("engines/*/server-*.json"))
        return [json.loads(path.read_text()) for path in paths]

    def state(self):
        model = self.warden.get("/models/tiny")
        return model["state"], model["state_reason"]

    def pids(self) -> list[int]:
        return [record["process"]["pid"] for record in self.records()]

    @staticmethod
    def processes(record: dict) -> list[Process]:
        return [process for process in Process.all() if process.belongs_to(record)]

    def metrics(self, server: int = 0) -> engine.Metrics:
        return engine.Metrics(f"http://127.0.0.1:{self.records()[server]['port']}")

    def turn(self, session: str, history: list[dict], text: str) -> client.Reply:
        history.append({"role": "user", "content": text})
        body = {"model": "tiny", "max_tokens": 8, "messages": history}
        reply = client.post(
            self.warden.url, MESSAGES.path, body, {"x-claude-code-session-id": session}
        )
        if reply.status == 200:
            history.append({"role": "assistant", "content": reply.body["content"]})
        return reply

    def cached_after_a_reminder(self) -> tuple[int, int]:
        """Cached and all prompt tokens of a turn before which a system message was put in."""
        history = []
        self.turn("reminded", history, words(300, "reminded"))
        history.append({"role": "system", "content": "Remember to be brief."})
        reply = self.turn("reminded", history, "Go on.")
        self.assertEqual(reply.status, 200, reply.body)
        prompt, cached, _ = MESSAGES.usage(reply.body)
        return cached, prompt


class Ranks(Supervised):
    """One server with two ranks."""

    history: list[dict] = []

    @classmethod
    def arguments(cls) -> list[str]:
        # The model's own template, named: only then does 0.26 look whether it takes system messages
        # where they stand.
        template = cls.logs / "template.jinja"
        settings = json.loads((cls.install.model / "tokenizer_config.json").read_text())
        template.write_text(settings["chat_template"])
        return [*super().arguments(), "--chat-template", str(template)]

    def test_1_it_started_through_its_phases(self):
        log = self.warden.log.read_text()
        for phase in ("loading weights", f"KV cache of {engine.CACHE_TOKENS} tokens per replica"):
            self.assertIn(phase, log)
        # The engine serves before the line that says so has been read from its log.
        self.eventually(
            lambda: [line["text"] for line in self.warden.get("/models/tiny/logs?limit=2000")["lines"]],
            lambda lines: any("startup complete" in line for line in lines),
        )
        for rank in range(RANKS):
            before = self.metrics().of("request_success_total", rank)
            pin = {"X-data-parallel-rank": str(rank)}
            reply = client.post(self.warden.url, CHAT.path, CHAT.body("Hello", 4), pin)
            self.assertEqual((reply.status, reply.replica), (200, str(rank)), reply.body)
            self.eventually(
                lambda r=rank: self.metrics().of("request_success_total", r) - before,
                lambda served: served == 1,
            )

    def test_2_a_killed_warden_adopts_its_engine_and_keeps_the_homes(self):
        first = self.turn("story", self.history, "word " * 400)
        self.assertEqual((first.status, first.route), (200, "new"), first.body)
        second = self.turn("story", self.history, "Go on.")
        self.assertEqual(second.replica, first.replica)
        # A kill may cost the last second; homes of other conversations are there already, so the size of
        # their files does not tell whether this one is written.
        time.sleep(1.5)
        pids = self.pids()
        self.warden.signal(signal.SIGKILL)
        self.warden.wait()
        self.warden.start()
        self.warden.wait_ready()
        self.assertEqual(self.pids(), pids)
        third = self.turn("story", self.history, "And on.")
        self.assertEqual((third.replica, third.route), (first.replica, "sticky"))
        self.assertGreater(third.body["usage"]["cache_read_input_tokens"], 400)

    def test_3_sigterm_loses_no_stream_and_leaves_the_engine(self):
        pids = self.pids()
        body = CHAT.body("Count", 400, ignore_eos=True, stream_options={"include_usage": True})
        stream = client.stream(self.warden.url, CHAT.path, body)
        events = stream.events()
        next(events)
        self.warden.signal(signal.SIGTERM)
        usages = [usage for usage in map(CHAT.usage, events) if usage]
        self.assertEqual(usages[-1][2], 400)
        self.assertEqual(self.warden.wait(), 0)
        self.warden.start()
        self.warden.wait_ready()
        self.assertEqual(self.pids(), pids)

    def test_4_a_killed_engine_core_cuts_its_streams_and_the_engine_comes_back(self):
        record = self.records()[0]
        body = {**MESSAGES.body("Count", 8000), "ignore_eos": True}
        stream = client.stream(self.warden.url, MESSAGES.path, body)
        seen, broken = [], []

        def read():
            try:
                seen.extend(stream.events())
            except (http.client.HTTPException, OSError) as error:
                broken.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        self.eventually(lambda: len(seen), lambda count: count > 2)
        cores = [p for p in self.processes(record) if "EngineCore" in p.title]
        self.assertEqual(len(cores), RANKS, [p.title for p in self.processes(record)])
        cores[0].kill()
        reader.join(60)
        # Which of the two depends on what vLLM's API server notices first.
        told = seen[-1]["type"] == "error"
        self.assertTrue(broken or told, f"the stream ended as if complete: {seen[-2:]}")
        self.assertFalse([e for e in seen if e["type"] == "message_stop"])
        self.eventually(self.state, lambda state: state[0] == "loading")
        reply = client.post(self.warden.url, CHAT.path, CHAT.body("Hello", 4))
        self.assertEqual(reply.status, 503, reply.body)
        self.assertIn("retry-after", reply.headers)
        self.eventually(self.state, lambda state: state[0] == "ready", RECOVERY_S_MAX)
        self.assertEqual(self.processes(record), [])
        self.assertEqual(self.turn("after", [], "Hello").status, 200)

    def test_5_with_a_named_template_a_reminder_keeps_the_prefix(self):
        cached, prompt = self.cached_after_a_reminder()
        self.assertGreater(cached, prompt / 2)

    def test_6_a_stop_leaves_nothing_behind(self):
        record = self.records()[0]
        self.warden.post("/models/tiny/stop")
        self.eventually(self.state, lambda state: state[0] == "stopped")
        self.assertEqual(self.processes(record), [])


class Servers(Supervised):
    """A server for each replica."""

    more = 'layout = "servers"'

    def test_1_a_killed_server_takes_one_replica_and_comes_back(self):
        self.eventually(self.state, lambda state: state[0] == "ready", RECOVERY_S_MAX)
        homes = {}
        for number in range(20):  # a server that has just begun to serve takes fewer at first
            reply = self.turn(f"session {number}", [], "Hello")
            self.assertEqual((reply.status, reply.route), (200, "new"), reply.body)
            homes.setdefault(reply.replica, f"session {number}")
            if len(homes) == 2:
                break
        self.assertEqual(sorted(homes), ["0", "1"])
        record = self.records()[1]
        Process(record["process"]["pid"]).kill()
        moved = self.turn(homes["1"], [], "Hello")
        self.assertEqual((moved.status, moved.replica), (200, "0"), moved.body)
        self.assertEqual(self.turn(homes["0"], [], "Hello").replica, "0")
        self.eventually(self.state, lambda state: state[0] == "degraded")
        self.eventually(self.state, lambda state: state[0] == "ready", RECOVERY_S_MAX)
        self.assertEqual(self.processes(record), [])

    def test_2_a_rolling_restart_loses_no_request(self):
        before = self.pids()
        self.warden.post("/models/tiny/restart")
        turns = 0
        while True:
            reply = self.turn(f"rolling {turns % 5}", [], "Hello")
            self.assertEqual(reply.status, 200, reply.body)
            turns += 1
            renewed = len(self.pids()) == 2 and not set(self.pids()) & set(before)
            if renewed and self.state()[0] == "ready":
                break
        print(f"{turns} turns during the restart")

    def test_3_without_a_named_template_0_26_moves_a_reminder_to_the_front(self):
        cached, prompt = self.cached_after_a_reminder()
        print(f"{cached} of {prompt} tokens cached after a reminder")
        if "vllm-0.26" in self.install.home.name:
            self.assertLess(cached, prompt / 4)
        else:
            self.assertGreater(cached, prompt / 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
