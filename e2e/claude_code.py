"""Claude Code through a running service before four simulated replicas, with affinity on and off.

Run by scripts/e2e-claude, in a network namespace that has only loopback. Real clients make the
requests; the simulated engine's scripts make them read files and run commands.

Judged are the tokens that only one conversation has: all that came after its first prompt. The first
prompt itself is left out whole, because nearly all of it (tools, system prompt) is the same for
every session and is found in any replica's cache soon enough, affinity or not.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from warden import Warden

SESSION_S_MAX = 240
# One replica's cache holds several of these conversations: what is missed is the routing's fault.
FILE_LINES = 700
FILE_TOKENS_MIN = 20_000
TOOL_TURNS_MIN = 5
OWN_CACHED_MIN = 0.9
# With affinity off, conversations of some ten turns over four replicas find a third of it by chance.
OFF_BELOW = 0.6


def models(affinity: bool) -> str:
    return f"""
[[models]]
name = "demo"
[models.engine]
kind = "simulated"
data_parallel_size = 4
max_num_seqs = 32
profile = "demo"
speed = 10.0
[models.routing]
affinity = {str(affinity).lower()}
"""


# --- The sessions ---------------------------------------------------------------------------------


def write_file(path: pathlib.Path, seed: str):
    """A text of some 90 KB that no other conversation has: over 20,000 tokens of four bytes."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=4)) for _ in range(500)]
    lines = (" ".join(draw.choices(words, k=25)) for _ in range(FILE_LINES))
    path.write_text("\n".join(lines) + "\n")


def call(tool: str, **arguments) -> str:
    return f"{tool} {json.dumps(arguments)}"


def prompt(steps: list[str]) -> str:
    return f"Work through your list. [[script: {'; '.join(steps)}; say all done]]"


def work(folder: pathlib.Path, name: str) -> list[str]:
    """Reads a file of its own first, then goes on for some turns."""
    write_file(folder / f"{name}.txt", name)
    commands = [f"wc -l {name}.txt", "ls", f"tail -n 1 {name}.txt", "echo $((6 * 7))", "uname"]
    return [call("Read", file_path=str(folder / f"{name}.txt"))] + [
        call("Bash", command=command, description="Work") for command in commands
    ]


def with_subagents(folder: pathlib.Path, name: str) -> list[str]:
    """The same, and two subagents of three turns each that run beside it."""
    agents = [
        call(
            "Agent",
            description="Help",
            subagent_type="general-purpose",
            prompt=prompt(work(folder, f"{name}-{helper}")[:3]),
        )
        for helper in ("first", "second")
    ]
    steps = work(folder, name)
    return steps[:2] + [" & ".join(agents)] + steps[2:]


@dataclasses.dataclass
class Session:
    name: str
    steps: list[str]
    folder: pathlib.Path

    def run(self, claude: pathlib.Path, url: str):
        """Runs Claude Code to its end and checks that it says so."""
        home = self.folder / "home"
        home.mkdir()
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "unused",
            "DISABLE_TELEMETRY": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # Subagents in the foreground, still side by side. The end of a background one is told in
            # a system message, which vLLM 0.26 (the simulated version) moves to the front of the
            # prompt: that loses the cache wherever the turn goes, and is not to be judged here.
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1",
        }
        for model in ("MODEL", "SMALL_FAST_MODEL", "DEFAULT_HAIKU_MODEL"):
            environment[f"ANTHROPIC_{model}"] = "demo"
        for model in ("SONNET", "OPUS"):
            environment[f"ANTHROPIC_DEFAULT_{model}_MODEL"] = "demo"
        command = [claude, "-p", prompt(self.steps), "--output-format", "stream-json"]
        command += ["--verbose", "--dangerously-skip-permissions"]
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SESSION_S_MAX,
        )
        results = [json.loads(line) for line in ran.stdout.splitlines() if '"result"' in line]
        ended = [event for event in results if event.get("type") == "result"]
        if ran.returncode != 0 or not ended or "all done" not in str(ended[-1].get("result")):
            raise RuntimeError(f"{self.name} failed ({ran.returncode}):\n{ran.stdout[-3000:]}{ran.stderr[-2000:]}")


def run_sessions(claude: pathlib.Path, url: str):
    """Two at a time, one of the first two with subagents."""
    kinds = [("plain", work), ("agents", with_subagents), ("third", work), ("fourth", work)]
    with tempfile.TemporaryDirectory(prefix="claude-e2e-") as top:
        sessions = []
        for name, kind in kinds:
            folder = pathlib.Path(top) / name
            folder.mkdir()
            sessions.append(Session(name, kind(folder, name), folder))
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            for done in [pool.submit(session.run, claude, url) for session in sessions]:
                done.result()


# --- What the service saw -------------------------------------------------------------------------


class Conversation:
    """The turns of one conversation, as the operators' API tells them."""

    def __init__(self, requests: list[dict]):
        self.turns = sorted(requests, key=lambda request: request["t"])
        self.is_subagent = bool(self.turns[0]["agent"])
        self.replicas = [turn["replica"] for turn in self.turns]
        first = self.turns[0]["prompt_tokens"]
        before = [turn["prompt_tokens"] + turn["completion_tokens"] - first for turn in self.turns]
        # Of each later turn: the own tokens that existed when it was sent, and those found cached.
        self.own_tokens = sum(before[:-1])
        self.own_cached = sum(max(0, turn["cached_tokens"] - first) for turn in self.turns[1:])
        self.file_tokens = self.turns[1]["prompt_tokens"] - first if len(self.turns) > 1 else 0

    @property
    def own_share(self) -> float:
        return self.own_cached / self.own_tokens

    @property
    def raw_share(self) -> float:
        return sum(t["cached_tokens"] for t in self.turns) / sum(t["prompt_tokens"] for t in self.turns)


def conversations(warden: Warden) -> list[Conversation]:
    requests = warden.get("/requests?limit=1000")["requests"]
    by_id = collections.defaultdict(list)
    for request in requests:
        if request["route"] is None:
            continue  # count_tokens and the like: no turn
        if request["status"] != 200 or None in (request["prompt_tokens"], request["cached_tokens"]):
            raise RuntimeError(f"a turn without success or usage: {request}")
        by_id[request["session"], request["agent"]].append(request)
    return [Conversation(turns) for turns in by_id.values()]


def own_share(found: list[Conversation]) -> float:
    return sum(c.own_cached for c in found) / sum(c.own_tokens for c in found)


def show(title: str, found: list[Conversation]):
    print(f"\n{title}: {own_share(found):.1%} of the conversations' own tokens were cached in later turns")
    print("  conversation   turns  last prompt   cached   own cached  replicas")
    for c in found:
        kind = "subagent" if c.is_subagent else "main"
        last = c.turns[-1]["prompt_tokens"]
        replicas = " ".join("-" if replica is None else str(replica) for replica in c.replicas)
        print(f"  {kind:<13} {len(c.turns):>6} {last:>12,} {c.raw_share:>8.1%} {c.own_share:>12.1%}  {replicas}")


def check(on: list[Conversation], off: list[Conversation], failed: list[str]):
    def expect(holds: bool, what: str):
        if not holds:
            failed.append(what)

    for title, found in (("on", on), ("off", off)):
        main = [c for c in found if not c.is_subagent]
        expect(len(main) == 4, f"affinity {title}: {len(main)} main conversations, not 4")
        expect(len(found) == 6, f"affinity {title}: {len(found)} conversations, not 6")
        for c in found:
            expect(c.file_tokens >= FILE_TOKENS_MIN, f"affinity {title}: a file of {c.file_tokens} tokens only")
        for c in main:
            expect(len(c.turns) > TOOL_TURNS_MIN, f"affinity {title}: {len(c.turns)} turns only")
    for c in on:
        routes = [turn["route"] for turn in c.turns]
        expect(routes == ["new"] + ["sticky"] * (len(routes) - 1), f"affinity on: routes {routes}")
        expect(len(set(c.replicas)) == 1, f"affinity on: replicas {c.replicas}")
        expect(c.own_share > OWN_CACHED_MIN, f"affinity on: {c.own_share:.1%} of a conversation's own tokens cached")
    for c in off:
        expect({turn["route"] for turn in c.turns} == {"balanced"}, "affinity off: a turn was steered")
    expect(own_share(off) < OFF_BELOW, f"affinity off: {own_share(off):.1%} cached all the same")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--claude", type=pathlib.Path, required=True, help="Claude Code's binary")
    arguments = parser.parse_args()
    arms = {}
    for affinity in (True, False):
        with Warden(models(affinity)) as warden:
            try:
                run_sessions(arguments.claude, warden.url)
            except Exception:
                print(warden.log.read_text()[-5000:], file=sys.stderr)
                raise
            arms[affinity] = conversations(warden)
    show("Affinity on", arms[True])
    show("Affinity off", arms[False])
    failed: list[str] = []
    check(arms[True], arms[False], failed)
    for what in failed:
        print(f"FAILED: {what}", file=sys.stderr)
    print(f"\nclaude: {0 if failed else 1} passed, {1 if failed else 0} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
