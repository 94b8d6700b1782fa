"""A real vLLM (the CPU build) with the tiny model, and what it counts. Standard library only."""

import collections
import dataclasses
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.request

NAME = "tiny"
CONTEXT_TOKENS = 16_384
SEQUENCES = 32
# Two ranks on two cores need some 100 s; a machine that is busy otherwise, several times that.
START_S_MAX = 600
STOP_S_MAX = 60

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
}
CACHE_TOKENS = 17_600


def arguments(install: "Install", context_tokens: int = CONTEXT_TOKENS) -> list[str]:
    """What a tiny model on a CPU needs beyond what every engine gets."""
    # From 0.32 on the CPU build wants a multiple of 32.
    block_tokens = 16 if "vllm-0.26" in install.home.name else 32
    blocks = max(CACHE_TOKENS, context_tokens + 32) // block_tokens
    return [
        "--load-format", "dummy",
        "--enforce-eager",
        "--max-model-len", str(context_tokens),
        "--num-gpu-blocks-override", str(blocks),
        "--block-size", str(block_tokens),
    ]  # fmt: skip


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@dataclasses.dataclass(frozen=True)
class Install:
    """Where scripts/vllm-cpu put it."""

    home: pathlib.Path

    @property
    def executable(self) -> pathlib.Path:
        return self.home / "venv/bin/vllm"

    @property
    def model(self) -> pathlib.Path:
        return self.home / "tiny"


class Metrics:
    """One scrape of /metrics: the sum of a family's samples, by engine."""

    _SAMPLE = re.compile(r'^(vllm:\w+)\{[^}]*engine="(\d+)"[^}]*\} (\S+)$', re.MULTILINE)

    def __init__(self, url: str):
        with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
            text = reply.read().decode()
        self._sums = collections.defaultdict(float)
        for family, engine, value in self._SAMPLE.findall(text):
            self._sums[family, int(engine)] += float(value)

    def of(self, family: str, engine: int) -> float:
        return self._sums[f"vllm:{family}", engine]

    def total(self, family: str) -> float:
        return sum(v for (name, _), v in self._sums.items() if name == f"vllm:{family}")

    def __repr__(self) -> str:
        return f"Metrics({dict(self._sums)})"

    def busy(self) -> float:
        """Requests that run or wait."""
        return self.total("num_requests_running") + self.total("num_requests_waiting")


@dataclasses.dataclass(frozen=True)
class Running:
    """A vLLM that was started elsewhere."""

    url: str

    def metrics(self) -> Metrics:
        return Metrics(self.url)


class Engine:
    """A vLLM that nobody supervises, with data-parallel ranks behind one port; use it in a `with`."""

    def __init__(self, install: Install, ranks: int, log: pathlib.Path):
        self._install = install
        self._ranks = ranks
        self.log = log
        self.url = f"http://127.0.0.1:{free_port()}"

    def __enter__(self):
        port = self.url.rpartition(":")[2]
        command = [
            self._install.executable, "serve", self._install.model,
            "--served-model-name", NAME,
            "--host", "127.0.0.1", "--port", port,
            "--dtype", "bfloat16",
            "--data-parallel-size", str(self._ranks),
            "--max-num-seqs", str(SEQUENCES),
            "--enable-prefix-caching", "--enable-prompt-tokens-details",
            "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
            *arguments(self._install),
        ]  # fmt: skip
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._wait_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_healthy(self):
        deadline = time.monotonic() + START_S_MAX
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"vLLM ended at its start:\n{self.log.read_text()[-5000:]}")
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"vLLM is not up: {error}") from error
            time.sleep(0.5)

    def __exit__(self, *_):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                break
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                continue

    def metrics(self) -> Metrics:
        return Metrics(self.url)
