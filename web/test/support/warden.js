// A real `lm-warden serve` with four simulated replicas.

import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const binary =
  process.env.LM_WARDEN_BIN ??
  fileURLToPath(new URL('../../../target/debug/lm-warden', import.meta.url));

/** Why no test can run against the real warden; `null` where they can. */
export const noWarden = reason();
if (noWarden) console.error(noWarden);

function reason() {
  if (!existsSync(binary)) {
    return `SKIPPED: no lm-warden at ${binary} (cargo build, or set LM_WARDEN_BIN)`;
  }
  const help = spawnSync(binary, ['serve', '--help'], { timeout: 10_000 });
  return help.status === 0 ? null : 'SKIPPED: this lm-warden cannot serve yet';
}

const start_ms_max = 60_000;
const stop_ms_max = 40_000;

export class Warden {
  /** @type {import('node:child_process').ChildProcess | null} */
  #process = null;
  #folder = '';
  #port = 0;
  #requiresKeys;
  #speed;

  /** @param {{ requiresKeys?: boolean, speed?: number }} [options] `speed`: of the simulated replicas */
  constructor({ requiresKeys = false, speed = 10 } = {}) {
    this.#requiresKeys = requiresKeys;
    this.#speed = speed;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  get #file() {
    return join(this.#folder, 'warden.toml');
  }

  /** Gives it a port and a folder. */
  async prepare() {
    if (this.#folder !== '') return;
    this.#folder = await mkdtemp(join(tmpdir(), 'lm-warden-pages-'));
    this.#port = await freePort();
    await writeFile(this.#file, this.#config());
  }

  /** `lm-warden key`: what it prints. @param {string[]} args */
  key(...args) {
    return this.run('key', ...args, '--config', this.#file).trim();
  }

  /** Starts it, or starts it again on the same port with the same data. */
  async start() {
    await this.prepare();
    const child = spawn(binary, ['serve', '--config', this.#file], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#process = child;
    let log = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => (log = (log + chunk).slice(-20_000)));
    }
    const end = Date.now() + start_ms_max;
    while (!(await this.#isReady())) {
      if (child.exitCode !== null || Date.now() > end) {
        throw new Error(`lm-warden does not get ready:\n${log}`);
      }
      await sleep(50);
    }
    return this;
  }

  #config() {
    return `
[server]
listen = "127.0.0.1:${this.#port}"
data_dir = "${join(this.#folder, 'data')}"
[auth]
required = ${this.#requiresKeys}
[[models]]
name = "demo"
[models.engine]
kind = "simulated"
data_parallel_size = 4
max_num_seqs = 32
profile = "demo"
speed = ${this.#speed.toFixed(1)}
`;
  }

  async #isReady() {
    try {
      const reply = await fetch(`${this.url}/ready`, { signal: AbortSignal.timeout(2_000) });
      return reply.ok;
    } catch {
      return false;
    }
  }

  /** Asks it to end, and waits until it has. */
  async stop() {
    const child = this.#process;
    this.#process = null;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), stop_ms_max);
    await ended;
    clearTimeout(late);
  }

  async remove() {
    await this.stop();
    if (this.#folder !== '') await rm(this.#folder, { recursive: true, force: true });
  }

  /** @param {string} path below /api/v1 */
  async get(path) {
    const reply = await fetch(`${this.url}/api/v1${path}`);
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }

  /**
   * One turn of a conversation: what the model said.
   * @param {string} session @param {object} body of `/v1/messages`
   */
  async ask(session, body) {
    const reply = await fetch(`${this.url}/v1/messages`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'claude-cli/2.1.0 (external, cli)',
        'x-claude-code-session-id': session,
      },
      body: JSON.stringify(body),
    });
    if (!reply.ok) throw new Error(`${reply.status} ${await reply.text()}`);
    return (await reply.json()).content;
  }

  /** What the binary itself prints. @param {string[]} args */
  run(...args) {
    const ran = spawnSync(binary, args, { encoding: 'utf8', timeout: 20_000 });
    if (ran.status !== 0) throw new Error(`lm-warden ${args.join(' ')}: ${ran.stderr}`);
    return ran.stdout;
  }

  /** The pages as they are embedded. */
  async page() {
    const reply = await fetch(`${this.url}/`);
    return { text: await reply.text(), headers: reply.headers };
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(address && typeof address === 'object' ? address.port : 0));
    });
  });
}
