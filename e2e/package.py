"""Unpacks the packages into empty folders and uses what is in them: `package.py FOLDER`.

The folder is that of scripts/package. Nothing is installed: what a package does to a system (users,
units) is only looked at, with systemd's own checker where there is one.
"""

import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

PACKAGES = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/package").resolve()
START_S_MAX = 60
COMMANDS = ["serve", "check", "doctor", "status", "claude", "logs", "reload"]


def run(*command, **more) -> str:
    """What a command prints; a failure tells it too."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, **more
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
    return done.stdout


class Demo:
    """`lm-warden serve` of an unpacked package, with the configuration that came with it."""

    def __init__(self, binary: pathlib.Path, config: pathlib.Path, state: pathlib.Path):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{free.getsockname()[1]}"
        # The environment that the unit gives, and nothing of the tester's.
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(state), "XDG_STATE_HOME": str(state)}
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(state / "notify"))
        self._manager.settimeout(START_S_MAX)
        environment["NOTIFY_SOCKET"] = str(state / "notify")
        self.log = state / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [binary, "serve", "--config", config, "--listen", self.url.removeprefix("http://")],
                cwd=state,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def heard(self) -> str:
        """What the service manager was told next."""
        return self._manager.recv(256).decode()

    def get(self, path: str, body: dict | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {"content-type": "application/json", "anthropic-version": "2023-06-01"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read()

    def wait_ready(self):
        deadline = time.monotonic() + START_S_MAX
        while True:
            try:
                return self.get("/ready")
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self._manager.close()


class Package:
    """What every package is asked; `root` is where it was unpacked, `prefix` what stands for /usr."""

    root: pathlib.Path
    prefix: pathlib.Path
    config: pathlib.Path

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="lm-warden-package-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = pathlib.Path(folder.name) / "root"
        cls.root.mkdir()
        cls.state = pathlib.Path(folder.name) / "state"
        cls.state.mkdir()
        cls.unpack()
        cls.binary = cls.prefix / "bin/lm-warden"

    def test_the_demo_runs_from_it(self):
        with Demo(self.binary, self.config, self.state) as demo:
            self.assertEqual(demo.heard(), "READY=1", demo.log.read_text())
            demo.wait_ready()
            reply = json.loads(
                demo.get(
                    "/v1/messages",
                    {"model": "demo", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]},
                )
            )
            self.assertEqual(reply["role"], "assistant")
            self.assertGreater(reply["usage"]["output_tokens"], 0)
            self.assertIn(b"<html", demo.get("/").lower())
            self.assertIn("demo", run(self.binary, "status", "--url", demo.url))
            environment = run(self.binary, "claude", "demo", "--url", demo.url)
            for setting in ("ATTRIBUTION_HEADER=0", "GATEWAY_HINT_HEADERS=1"):
                self.assertIn(f"export CLAUDE_CODE_{setting}", environment)
            demo.process.send_signal(signal.SIGHUP)
            self.assertRegex(demo.heard(), r"^RELOADING=1\nMONOTONIC_USEC=\d+$")
            self.assertEqual(demo.heard(), "READY=1")
            demo.process.terminate()
            self.assertEqual(demo.heard(), "STOPPING=1")
            self.assertEqual(demo.process.wait(60), 0, demo.log.read_text())

    def test_every_example_passes_check(self):
        examples = sorted((self.prefix / "share/doc/lm-warden/examples").glob("*.toml"))
        self.assertGreaterEqual(len(examples), 3)
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.state), "VLLM_API_KEY": "key"}
        for example in examples:
            run(self.binary, "check", "--config", example, env=environment)

    def test_there_is_a_page_of_the_manual_and_a_completion_for_every_command(self):
        pages = self.prefix / "share/man/man1"
        self.assertIn("lm-warden", gzip.open(pages / "lm-warden.1.gz", "rt").read())
        completion = self.prefix / "share/bash-completion/completions/lm-warden"
        for command in COMMANDS:
            self.assertTrue((pages / f"lm-warden-{command}.1.gz").exists(), command)
        ask = (
            'source "$0"; complete=($(complete -p lm-warden)); COMP_WORDS=(lm-warden ""); COMP_CWORD=1;'
            ' "${complete[-2]}" lm-warden "" lm-warden; echo "${COMPREPLY[@]}"'
        )
        offered = run("bash", "--norc", "-c", ask, completion).split()
        for command in COMMANDS:
            self.assertIn(command, offered)
        self.assertNotIn("manual", offered)
        for path in ("zsh/site-functions/_lm-warden", "fish/vendor_completions.d/lm-warden.fish"):
            self.assertIn("doctor", (self.prefix / "share" / path).read_text())

    def test_systemd_takes_the_unit(self):
        unit = self.prefix / "lib/systemd/system/lm-warden.service"
        text = unit.read_text()
        for line in ("Type=notify", "KillMode=process", "OOMPolicy=continue", "NoNewPrivileges=yes"):
            self.assertIn(f"\n{line}\n", text)
        if not shutil.which("systemd-analyze"):
            self.skipTest("SKIPPED: no systemd-analyze")
        # As the system would see it, but with the binary where it was unpacked and a user that is.
        here = self.state / "lm-warden.service"
        started = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        installed = started[0].removeprefix("ExecStart=").split()[0]
        here.write_text(text.replace(installed, str(self.binary)).replace("=lm-warden\n", "=daemon\n"))
        run("systemd-analyze", "verify", "--man=no", here)


class Deb(Package, unittest.TestCase):
    """The Debian package."""

    @classmethod
    def unpack(cls):
        if not shutil.which("dpkg-deb"):
            raise unittest.SkipTest("SKIPPED: no dpkg-deb")
        [cls.package] = PACKAGES.glob("*.deb")
        run("dpkg-deb", "--extract", cls.package, cls.root)
        cls.prefix = cls.root / "usr"
        cls.config = cls.root / "etc/lm-warden/warden.toml"

    def test_its_fields_and_scripts(self):
        def field(name):
            return run("dpkg-deb", "--field", self.package, name).strip()

        self.assertEqual(f"lm-warden {field('Version')}", run(self.binary, "--version").strip())
        self.assertRegex(field("Depends"), r"libc6 \(>= 2\.\d+\)")
        control = self.state / "control"
        run("dpkg-deb", "--control", self.package, control)
        self.assertEqual((control / "conffiles").read_text(), "/etc/lm-warden/warden.toml\n")
        for script in ("postinst", "prerm", "postrm"):
            run("sh", "-n", control / script)
            self.assertTrue(os.access(control / script, os.X_OK))


    def test_a_removal_ends_the_engines_that_the_service_left(self):
        groups = next(
            (
                pathlib.Path(line.split()[1])
                for line in pathlib.Path("/proc/mounts").read_text().splitlines()
                if line.split()[2] == "cgroup2"
            ),
            None,
        )
        if not groups or os.geteuid() != 0 or not os.access(groups, os.W_OK):
            self.skipTest("SKIPPED: no control groups to play the service's with")
        group = groups / f"lm-warden-test-{os.getpid()}"
        control = self.state / "prerm"
        run("dpkg-deb", "--control", self.package, control)
        # As it is installed, but for where it looks, and without a systemd to talk to.
        script = (control / "prerm").read_text()
        for path, here in (("/sys/fs/cgroup/system.slice/lm-warden.service", group), ("/run/systemd/system", "/")):
            self.assertIn(path, script)
            script = script.replace(path, str(here))
        (control / "systemctl").write_text("#!/bin/sh\n")
        (control / "systemctl").chmod(0o755)
        group.mkdir()
        engine = subprocess.Popen(["sleep", "600"])
        try:
            (group / "cgroup.procs").write_text(str(engine.pid))
            environment = {"PATH": f"{control}:/usr/bin:/bin"}
            run("sh", "-ec", script, "prerm", "upgrade", "0.2.0", env=environment)
            self.assertIsNone(engine.poll(), "an upgrade leaves it")
            run("sh", "-ec", script, "prerm", "remove", env=environment)
            self.assertEqual(engine.wait(60), -signal.SIGTERM)
        finally:
            engine.kill()
            engine.wait()
            group.rmdir()


class Tarball(Package, unittest.TestCase):
    """The same tree for /usr/local."""

    @classmethod
    def unpack(cls):
        [package] = PACKAGES.glob("*.tar.gz")
        run("tar", "-C", cls.root, "-xf", package)
        [cls.prefix] = cls.root.iterdir()
        cls.config = cls.prefix / "share/doc/lm-warden/examples/warden.toml"


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
