"""A running `lm-warden serve` for an end-to-end test. Standard library only."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_S_MAX = 60
STOP_S_MAX = 30


def binary() -> pathlib.Path:
    """The binary under test: LM_WARDEN_BIN, else the development build."""
    return pathlib.Path(os.environ.get("LM_WARDEN_BIN", ROOT / "target/debug/lm-warden"))


class Warden:
    """Serves `models` (TOML) on a free loopback port; use it in a `with`.

    Inside, it may be ended and started again, with the state that it left.
    """

    def __init__(self, models: str, start_s_max: float = START_S_MAX):
        self._models = models
        self._start_s_max = start_s_max
        self._dir = tempfile.TemporaryDirectory(prefix="lm-warden-e2e-")
        self.log = pathlib.Path(self._dir.name) / "log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self):
        here = pathlib.Path(self._dir.name)
        config = here / "warden.toml"
        config.write_text(
            f'[server]\nlisten = "127.0.0.1:{self.port}"\ndata_dir = "{here / "data"}"\n{self._models}'
        )
        try:
            self.start()
            self.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, *arguments: str):
        """Starts the process, again after an `end`."""
        config = pathlib.Path(self._dir.name) / "warden.toml"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [binary(), "serve", "--config", config, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def signal(self, number: int):
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(STOP_S_MAX)

    def wait_ready(self):
        deadline = time.monotonic() + self._start_s_max
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"lm-warden ended at its start:\n{self.log.read_text()}")
            try:
                urllib.request.urlopen(f"{self.url}/ready", timeout=5).close()
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"not ready: {error}\n{self.log.read_text()}") from error
            time.sleep(0.05)

    def __exit__(self, *_):
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
        finally:
            self._dir.cleanup()

    @property
    def data_dir(self) -> pathlib.Path:
        return pathlib.Path(self._dir.name) / "data"

    def get(self, path: str):
        """What the operators' API answers at `path`."""
        return self._api(path)

    def patch(self, path: str, body: dict):
        """What it answers to a change."""
        return self._api(path, method="PATCH", data=json.dumps(body).encode())

    def post(self, path: str):
        """What it answers to a command."""
        return self._api(path, method="POST", data=b"")

    def request(self, request_id: str) -> dict:
        """The record of a request that has ended."""
        records = self.get("/requests?limit=100")["requests"]
        return next(record for record in records if record["id"] == request_id)

    def _api(self, path: str, **more):
        headers = {"content-type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/v1{path}", headers=headers, **more)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)
