// A warden made of one scene: serves the built pages under the content security policy of the real
// one, answers the operators' API out of the scene, and tells the stream of events what changed.

import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { page } from './paging.js';
import { calmHistory, cards, quietStats, stats } from './scenes.js';

/** @typedef {import('../../src/api/schema.js').components['schemas']} Schemas */
/** @typedef {import('./scenes.js').Scene} Scene */
/** @typedef {import('node:http').ServerResponse} Response */

const pages = fileURLToPath(new URL('../../../.cache/pages', import.meta.url));
const types = /** @type {Record<string, string>} */ ({
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
});

export class MockWarden {
  started = Date.now() / 1000;
  /** Set to a status to have every call of the API fail with it. @type {number | null} */
  failing = null;
  /** What is wrong with the history. @type {Partial<Schemas['HistoryState']>} */
  history = {};
  /** Calls of the API so far. @type {string[]} */
  calls = [];
  /** What the session says. @type {{ required: boolean, name: string | null, role: string | null }} */
  session = { required: false, name: null, role: null };
  /** The key that opens the pages. */
  key = 'lmw_right';
  /** What was changed through the API. @type {{ path: string, body: unknown }[]} */
  changes = [];
  /** @type {Set<Response>} */
  #streams = new Set();
  /** @type {import('node:http').Server | null} */
  #server = null;
  #port = 0;

  /** @param {Scene} scene */
  constructor(scene) {
    this.scene = scene;
  }

  get url() {
    return `http://127.0.0.1:${this.#port}`;
  }

  async start() {
    const server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => {
        response.statusCode = 500;
        response.end(String(error));
      });
    });
    await new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(this.#port, '127.0.0.1', () => resolve(null));
    });
    const address = server.address();
    if (address && typeof address === 'object') this.#port = address.port;
    this.#server = server;
    return this;
  }

  /** Frees the port at once, as a killed process does. `start` takes the same port again. */
  async stop() {
    const server = this.#server;
    if (!server) return;
    this.#server = null;
    this.#streams.clear();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }

  /** How many streams of events are open. */
  get streams() {
    return this.#streams.size;
  }

  /** Changes the scene and says so. @param {(scene: Scene) => Scene | void} change */
  change(change) {
    this.scene = change(this.scene) ?? this.scene;
    const models = this.scene.models.map((model) => model.name);
    this.#tell('changed', { models, requests: models });
  }

  /** @param {string} event @param {unknown} data */
  #tell(event, data) {
    for (const stream of this.#streams) {
      stream.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
    }
  }

  /** @param {import('node:http').IncomingMessage} request @param {Response} response */
  async #answer(request, response) {
    const url = new URL(request.url ?? '/', this.url);
    if (!url.pathname.startsWith('/api/')) return this.#page(url.pathname, response);
    this.calls.push(`${request.method} ${url.pathname}${url.search}`);
    const isOpen = /^\/api\/v1\/(session|login|logout)$/.test(url.pathname);
    if (this.session.required && this.session.name === null && !isOpen) {
      return json(response, 401, fault('unauthorized', 'A key is needed here.'));
    }
    if (this.failing !== null) {
      return json(response, this.failing, fault('overloaded', 'The history is not available.'));
    }
    if (url.pathname === '/api/v1/events') return this.#stream(response);
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const text = Buffer.concat(chunks).toString();
    const { status, body } = this.#api(
      request.method ?? 'GET',
      url,
      text ? JSON.parse(text) : undefined,
    );
    return json(response, status, body);
  }

  /** @param {Response} response */
  #stream(response) {
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
    this.#streams.add(response);
    response.on('close', () => this.#streams.delete(response));
    const hello = { version: '0.1.0', started: this.started };
    response.write(`event: hello\ndata: ${JSON.stringify(hello)}\n\n`);
  }

  /** @param {string} method @param {URL} url @param {any} body */
  #api(method, url, body) {
    const parts = url.pathname.split('/').slice(3).map(decodeURIComponent);
    const [what, id, action] = parts;
    const only = url.searchParams.get('model');
    if (what === 'session') return ok(this.session);
    if (what === 'login') return this.#logIn(body.key);
    if (what === 'logout') {
      this.session = { ...this.session, name: null, role: null };
      return { status: 204, body: undefined };
    }
    if (what === 'keys') return ok({ required: true, trouble: null, keys: this.scene.keys ?? [] });
    if (what === 'models' && id === undefined) {
      const uptime_s = Date.now() / 1000 - this.started;
      return ok({ version: '0.1.0', started: this.started, uptime_s, models: this.scene.models });
    }
    if (what === 'models') {
      const model = this.scene.models.find((one) => one.name === id);
      if (!model) return missing(`There is no model "${id}".`);
      if (action === 'routing' && method === 'PATCH') {
        this.changes.push({ path: url.pathname, body });
        const threshold = body.spill_threshold;
        if (threshold === 999) {
          return { status: 400, body: fault('bad_value', 'spill_threshold 999: at most 256.') };
        }
        if ('affinity' in body) model.routing.affinity = body.affinity;
        if ('leases' in body) model.routing.leases.mode = body.leases;
        if (threshold !== undefined) {
          model.routing.spill_threshold =
            threshold === 'auto'
              ? { value: 8, source: 'auto' }
              : { value: threshold, source: 'set' };
        }
        return ok(model.routing);
      }
      if (action === 'replicas' && method === 'POST') {
        this.changes.push({ path: url.pathname, body });
        const replica = model.routing.replicas[Number(parts[3])];
        if (!replica) return missing('There is no such replica.');
        replica.state = parts[4] === 'drain' ? 'draining' : 'up';
        return ok(model.routing);
      }
      return ok(model);
    }
    if (what === 'stats') {
      const [range_s, step_s] = ['range', 'step'].map((key) => seconds(url.searchParams.get(key)));
      const full = stats(11, range_s ?? 3600, step_s ?? 60, only);
      return ok(this.scene.requests.length > 0 ? full : quietStats(full));
    }
    if (what === 'gpus') {
      const none = { gpus: [], driver: null, unavailable: 'NVML is not installed here.' };
      return ok(this.scene.models[0]?.name === 'demo' ? none : cards());
    }
    if (what === 'requests') {
      const session = url.searchParams.get('session');
      const list = this.scene.requests.filter(
        (one) =>
          (!only || one.model === only) &&
          (!url.searchParams.has('in_flight') || one.end == null) &&
          (!session || one.session === session || one.conversation === session) &&
          isWithin(one, url.searchParams),
      );
      const { rows, matching } = page(list, url.searchParams, ['route', 'end']);
      return ok({ requests: rows, matching, matching_at_least: false, next: null });
    }
    if (what === 'history') return ok({ ...calmHistory(), ...this.history });
    if (what === 'conversations' && id === undefined) {
      const list = this.scene.conversations.filter((one) => !only || one.model === only);
      const { rows, matching } = page(list, url.searchParams, ['replica']);
      return ok({ conversations: rows, matching, total: list.length });
    }
    if (what === 'conversations') return this.#conversation(method, url.pathname, id, body);
    return missing('There is no such path.');
  }

  /** @param {string} key */
  #logIn(key) {
    if (key !== this.key) {
      return { status: 401, body: fault('unauthorized', 'this key is not known here') };
    }
    this.session = { required: true, name: 'boss', role: 'admin' };
    return { status: 204, body: undefined };
  }

  /** @param {string} method @param {string} path @param {string | undefined} id @param {any} body */
  #conversation(method, path, id, body) {
    const conversation = this.scene.conversations.find((one) => one.id === id);
    if (!conversation) return missing(`There is no conversation "${id}".`);
    if (method !== 'GET') this.changes.push({ path, body });
    if (method === 'POST') conversation.replica = body.replica;
    if (method === 'DELETE') {
      this.scene.conversations = this.scene.conversations.filter((one) => one.id !== id);
      return { status: 204, body: undefined };
    }
    return ok(conversation);
  }

  /** @param {string} path @param {Response} response */
  async #page(path, response) {
    const file = extname(path) === '' ? 'index.html' : path.slice(1);
    const body = await readFile(join(pages, file)).catch(() => null);
    response.setHeader('content-security-policy', "default-src 'self'");
    response.setHeader('content-type', types[extname(file)] ?? 'application/octet-stream');
    response.statusCode = body === null ? 404 : 200;
    response.end(body ?? 'not found');
  }
}

/** Ended within the time asked for. @param {Schemas['Request']} one @param {URLSearchParams} query */
function isWithin(one, query) {
  const [from, to] = ['ended_from', 'ended_to'].map((name) => Number(query.get(name)) || null);
  if (!from || !to) return true;
  const ended = one.total_ms == null ? null : one.t + one.total_ms / 1000;
  return ended !== null && ended >= from && ended < to;
}

/** `15m`, `1h`, `10s`. @param {string | null | undefined} text */
function seconds(text) {
  const [, number, unit] = /^(\d+)([smhd])$/.exec(text ?? '') ?? [];
  const units = /** @type {Record<string, number>} */ ({ s: 1, m: 60, h: 3600, d: 86_400 });
  return number && unit ? Number(number) * (units[unit] ?? 1) : undefined;
}

/** @param {unknown} body */
const ok = (body) => ({ status: 200, body });
/** @param {string} message */
const missing = (message) => ({ status: 404, body: fault('not_found', message) });
/** @param {string} code @param {string} message */
const fault = (code, message) => ({ error: { code, message } });

/** @param {Response} response @param {number} status @param {unknown} body */
function json(response, status, body) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(body === undefined ? undefined : JSON.stringify(body));
}
