// What the mock warden can look like: from nothing at all to a busy machine with broken replicas.
// Figures are made up but consistent; they follow from the seed alone.

/** @typedef {import('../../src/api/schema.js').components['schemas']} Schemas */
/** @typedef {Schemas['Model']} Model */
/** @typedef {Schemas['Replica']} Replica */
/** @typedef {Schemas['Routing']} Routing */
/** @typedef {Schemas['Request']} Request */
/** @typedef {Schemas['Conversation']} Conversation */
/** @typedef {{ models: Model[], requests: Request[], conversations: Conversation[], keys?: Key[] }} Scene */
/** @typedef {Schemas['Key']} Key */

const now = () => Date.now() / 1000;

/** A small generator (mulberry32), so that a picture looks the same each time. @param {number} seed */
export function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** @param {() => number} next */
const hex = (next) =>
  Array.from({ length: 16 }, () => Math.floor(next() * 16).toString(16)).join('');

/** @param {number} replica @param {Partial<Replica>} [changes] @returns {Replica} */
export function replica(replica, changes = {}) {
  return {
    replica,
    state: 'up',
    in_flight: 0,
    new: 0,
    sticky: 0,
    spilled_in: 0,
    moved_in: 0,
    client_pinned: 0,
    running: 0,
    waiting: 0,
    kv_cache_usage: 0,
    prefix_cache_hit_rate: null,
    engine_counters: null,
    conversations: 0,
    committed_tokens: 0,
    kv_tokens: 481_280,
    scrape_age_ms: 400,
    ...changes,
  };
}

/** @param {string} name @param {Replica[]} replicas @param {Partial<Model['routing']>} [routing] @returns {Model} */
export function model(name, replicas, routing = {}) {
  return {
    name,
    aliases: [],
    state: 'ready',
    state_since: now() - 5_400,
    state_reason: null,
    engine: {
      kind: 'simulated',
      model: 'Qwen/Qwen3-4B-Instruct-2507',
      version: '0.26.0',
      started: now() - 7_260,
      max_model_len: 262_144,
      max_num_seqs: 32,
      responses_steerable: false,
    },
    throughput: throughput(replicas),
    routing: {
      affinity: true,
      spill_threshold: { value: 8, source: 'auto' },
      leases: leases(replicas.length),
      sticky_percent: null,
      in_flight: 0,
      balanced: 0,
      counters_since: now() - 95,
      working_set: workingSet(replicas),
      replicas,
      ...routing,
    },
  };
}

/** @param {Replica[]} replicas @returns {Model['throughput']} */
function throughput(replicas) {
  if (replicas.every((replica) => (replica.scrape_age_ms ?? Infinity) > 5_000)) {
    return {
      span_s: null,
      prompt_tokens_cached_per_s: null,
      prompt_tokens_computed_per_s: null,
      completion_tokens_per_s: null,
    };
  }
  const running = replicas.reduce((sum, replica) => sum + (replica.running ?? 0), 0);
  return {
    span_s: 10,
    prompt_tokens_cached_per_s: running * 2_210.5,
    prompt_tokens_computed_per_s: running * 371.2,
    completion_tokens_per_s: running * 31.4,
  };
}

/** @param {Replica[]} replicas @returns {Routing['working_set']} */
export function workingSet(replicas) {
  const sum = (/** @type {(one: Replica) => number} */ of) =>
    replicas.reduce((all, one) => all + of(one), 0);
  const conversations = sum((one) => one.conversations);
  const tokens = sum((one) => one.committed_tokens);
  const known = replicas.every((one) => one.kv_tokens != null);
  const kv_tokens = known ? sum((one) => one.kv_tokens ?? 0) : null;
  return {
    conversations,
    tokens,
    kv_tokens,
    fill: kv_tokens ? tokens / kv_tokens : null,
    conversations_fit:
      kv_tokens && conversations ? Math.floor(kv_tokens / (tokens / conversations)) : null,
    is_over: kv_tokens != null && tokens > kv_tokens,
  };
}

/**
 * Nothing waits.
 * @param {number} count replicas
 * @returns {Routing['leases']}
 */
export function leases(count) {
  return {
    mode: 'auto',
    state: 'sticky',
    contended: false,
    contended_since: null,
    turns: { value: 3, set: false },
    waiting: 0,
    holding: 0,
    oldest_wait_s: null,
    predicted_wait_s: 0,
    miss_ratio: 0.031,
    replicas: Array.from({ length: count }, (_, replica) => ({
      replica,
      holding: 0,
      leased_tokens: 0,
      capacity_tokens: 41_200,
      theta: 1,
    })),
    waiters: [],
    holders: [],
    counters: {
      contentions: 0,
      waits: 0,
      refused: 0,
      ended_room: 0,
      ended_held: 0,
      ended_age: 0,
      ended_over: 0,
      ended_nowhere: 0,
      ended_left: 0,
      over_age: 0,
      grants: 0,
      held_turns: 0,
      released_silent: 0,
      released_quantum: 0,
      released_overflow: 0,
      released_void: 0,
      missed_tokens: 0,
      expected_tokens: 0,
    },
  };
}

/**
 * The machine is full: 60 wait, 12 hold.
 * @param {number} count replicas
 * @returns {Routing['leases']}
 */
export function full(count) {
  const idle = leases(count);
  const hash = (/** @type {number} */ n) =>
    (0x9e37_79b9_7f4a_7c15n * BigInt(n + 1)).toString(16).slice(-16);
  return {
    ...idle,
    state: 'contended',
    contended: true,
    contended_since: now() - 640,
    waiting: 60,
    holding: 12,
    oldest_wait_s: 42.5,
    predicted_wait_s: 71.2,
    miss_ratio: 0.64,
    replicas: idle.replicas.map((one) => ({
      ...one,
      holding: 12 / count,
      leased_tokens: 31_000 + 2_500 * one.replica,
      theta: one.replica === 1 ? 0.9 : 1,
    })),
    waiters: Array.from({ length: 50 }, (_, n) => ({
      conversation: n === 2 ? null : hash(n),
      since: now() - 42.5 + 0.8 * n,
      remaining_s: 11 + n,
    })),
    holders: Array.from({ length: 12 }, (_, n) => ({
      conversation: hash(100 + n),
      replica: n % count,
      tokens: 9_800 + 310 * n,
      turns: 3 - (n % 3),
      since: now() - 44 + 3 * n,
      held_until: n % 4 === 1 ? now() + 75 : null,
    })),
  };
}

/** @returns {Schemas['Alarm']} */
export function billingAlarm() {
  const setting = 'CLAUDE_CODE_ATTRIBUTION_HEADER=0';
  return {
    kind: 'billing_block',
    conversations: 1,
    message:
      "The client's billing block changed 11 times in 12 turns. An engine that does not leave that " +
      `block out reads everything behind the tools again each time. Set ${setting}.`,
    setting,
  };
}

/** @returns {Schemas['Gpus']} */
export function cards() {
  return {
    driver: '580.82.07',
    unavailable: null,
    gpus: [0, 1, 2, 3].map((gpu) => ({
      gpu,
      name: 'NVIDIA RTX A4000',
      memory_bytes: 16 * 2 ** 30,
      memory_used_bytes: 14.2 * 2 ** 30,
      utilisation: 0.62 + gpu / 20,
      temperature_c: 61 + gpu,
      power_w: 118 + 3 * gpu,
      replicas: [{ model: 'qwen3-4b-dp4', replica: gpu }],
    })),
  };
}

/** @returns {Scene} */
export function none() {
  return { models: [], requests: [], conversations: [] };
}

/** Just started: four replicas, nothing has come. @returns {Scene} */
export function idle() {
  return {
    models: [
      model(
        'demo',
        [0, 1, 2, 3].map((n) => replica(n)),
      ),
    ],
    requests: [],
    conversations: [],
  };
}

/** Just started, and the engine has not told anything yet. @returns {Scene} */
export function loading() {
  const unknown = /** @type {const} */ ({
    state: 'down',
    running: null,
    waiting: null,
    kv_cache_usage: null,
    kv_tokens: null,
    scrape_age_ms: null,
  });
  const demo = model(
    'demo',
    [0, 1, 2, 3].map((n) => replica(n, unknown)),
  );
  demo.state = 'loading';
  demo.state_reason = 'The engine is starting: no replica answers /health yet (12 s).';
  Object.assign(demo.engine, { model: null, version: null, max_model_len: null });
  return { models: [demo], requests: [], conversations: [] };
}

/** @param {number} seed @param {number} count @param {string} name @param {number} [replicas] */
export function requests(seed, count, name, replicas = 4) {
  const next = random(seed);
  // The first of these ids are those that `conversations` makes of the same seed.
  const ids = conversations(seed, 9, name).map((one) => one.id);
  /** @type {Request[]} */
  const list = [];
  for (let i = 0; i < count; i++) {
    const pick = next();
    const conversation = ids[Math.floor(next() * ids.length)] ?? null;
    const home = Math.floor(next() * replicas);
    const other = (home + 1 + Math.floor(next() * (replicas - 1))) % replicas;
    const turn = 2 + Math.floor(next() * 40);
    const route =
      i === 4
        ? 'spilled'
        : pick < 0.8
          ? 'sticky'
          : pick < 0.9
            ? 'new'
            : pick < 0.96
              ? 'spilled'
              : 'moved';
    const at = route === 'spilled' || route === 'moved' ? other : home;
    const running = Array.from({ length: replicas }, () => Math.floor(next() * 7));
    if (route === 'spilled') running[home] = 9;
    const reason = {
      sticky: 'stays where its cache is',
      new: `first turn; least loaded: replica ${home} has ${running[home]} running`,
      spilled: `home ${home} has 9 in flight, over 8; replica ${other} has ${running[other]} running`,
      moved: `home ${home} is out; replica ${other} has ${running[other]} running`,
    }[route];
    const prompt = 16_000 + Math.floor(next() * 90_000);
    const flying = i < 3;
    const cached = Math.floor(prompt * (route === 'sticky' ? 0.96 : 0.2));
    const cold = !flying && (route === 'spilled' || route === 'moved' || i === 9);
    list.push({
      id: `req-${seed}-${count - i}`,
      t: now() - 1.4 - i * 2.7,
      model: name,
      conversation,
      session: conversation,
      agent: null,
      api: 'messages',
      route,
      reason,
      scores: running.map((count, n) => ({
        replica: n,
        available: !(route === 'moved' && n === home),
        fits: true,
        in_flight: count,
        running: count,
        cache_fill: next() * 0.8,
        conversations: Math.floor(next() * 12),
      })),
      replica: at,
      turn: route === 'new' ? 1 : turn,
      side: false,
      gap_ms: flying || route === 'new' ? null : 1_200 + next() * 60_000,
      cold: cold ? coldAs(route, at, prompt - cached) : null,
      queue_ms: 0.2,
      ttfb_ms: i < 1 ? null : 90 + next() * 1_400,
      total_ms: flying ? null : 2_000 + next() * 9_000,
      prompt_tokens: flying ? null : prompt,
      cached_tokens: flying ? null : cached,
      computed_tokens: flying ? null : prompt - cached,
      completion_tokens: flying ? null : 40 + Math.floor(next() * 900),
      status: flying ? null : i === 7 ? 499 : 200,
      end: flying ? null : i === 7 ? 'client_gone' : i === 11 ? 'cut' : 'complete',
    });
  }
  return list;
}

/**
 * @param {Schemas['Route']} route @param {number} replica @param {number} tokens
 * @returns {NonNullable<Request['cold']>}
 */
function coldAs(route, replica, tokens) {
  const again = `${tokens.toLocaleString('en')} tokens read again`;
  const told = { tokens_read_again: tokens, measured: true };
  if (route === 'spilled' || route === 'moved') {
    return {
      ...told,
      why: route,
      part: null,
      sentence: `${route} to replica ${replica}: ${again}`,
    };
  }
  const part = 'system block 1';
  return { ...told, why: 'prefix_changed', part, sentence: `${part} changed: ${again}` };
}

/**
 * An hour in steps, with a gap and a last step that is still filling.
 * @param {number} seed @param {number} range_s @param {number} step_s @param {string | null} name
 * @returns {Schemas['Stats']}
 */
export function stats(seed, range_s, step_s, name) {
  const next = random(seed);
  const steps = range_s / step_s;
  const first = (Math.floor(now() / step_s) - steps + 1) * step_s;
  const points = Array.from({ length: steps }, (_, i) => {
    const t = first + i * step_s;
    if (i < steps * 0.1 || (i > steps * 0.55 && i < steps * 0.62)) return { t, routes: [] };
    const wave = (1 + Math.sin(i / (steps / 9))) * step_s;
    const cached = Math.floor(wave * (4_000 + next() * 2_500));
    const computed = Math.floor(wave * (300 + next() * 900));
    const completion = Math.floor(wave * (90 + next() * 60));
    const filling = i === steps - 1 ? 0.4 : 1;
    return {
      t,
      prompt_tokens_cached: Math.floor(cached * filling),
      prompt_tokens_computed: Math.floor(computed * filling),
      completion_tokens: Math.floor(completion * filling),
      prompt_tokens_cached_per_s: (cached * filling) / step_s,
      prompt_tokens_computed_per_s: (computed * filling) / step_s,
      completion_tokens_per_s: (completion * filling) / step_s,
      requests: 1 + Math.floor(next() * 20),
      unmeasured_requests: i % 17 === 0 ? 1 : 0,
      ttfb_ms_p50: 120 + next() * 200,
      ttfb_ms_p95: 700 + next() * 1_400,
      routes: routeFigures(next, 10),
    };
  });
  return {
    range_s,
    step_s,
    model: name,
    points,
    summary: {
      cache_hit_percent: 86.43,
      prompt_tokens_cached: 18_204_113,
      prompt_tokens_computed: 2_858_220,
      completion_tokens: 401_002,
      requests: 612,
      unmeasured_requests: 4,
      ttfb_ms_p50: 231.4,
      ttfb_ms_p95: 1_320.9,
      routes: routeFigures(next, 500),
    },
    marks: marks(first, range_s),
  };
}

/** @param {() => number} next @param {number} most @returns {Schemas['RouteFigures'][]} */
function routeFigures(next, most) {
  const routes = /** @type {const} */ (['sticky', 'new', 'spilled', null]);
  return routes.map((route, place) => ({
    route,
    requests: Math.ceil((next() * most) / (1 + place * 3)),
    ttfb_ms_p50: route === null ? null : 120 + next() * 200 * (1 + place),
    ttfb_ms_p95: route === null ? null : 700 + next() * 1_400 * (1 + place),
  }));
}

/** @param {number} first @param {number} range_s @returns {Schemas['Mark'][]} */
function marks(first, range_s) {
  const at = (/** @type {number} */ share) => first + range_s * share;
  return [
    { t: at(0.31), kind: 'setting_changed', model: 'demo', text: 'spill threshold 6' },
    { t: at(0.62), kind: 'warden_started', model: null, text: 'lm-warden 0.1.0 started' },
    { t: at(0.625), kind: 'engine_started', model: 'demo', text: 'engine started: replicas 0, 1' },
  ];
}

/** Nothing is wrong with the history. @returns {Schemas['HistoryState']} */
export function calmHistory() {
  return {
    writable: true,
    dropped: 0,
    waiting: 0,
    written: 612,
    bytes: 4_812_800,
    oldest: now() - 86_400,
    set_aside_files: 0,
  };
}

/** The same without a single request. @param {Schemas['Stats']} full @returns {Schemas['Stats']} */
export function quietStats(full) {
  return {
    ...full,
    points: full.points.map(({ t }) => ({ t, routes: [] })),
    marks: [],
    summary: {
      prompt_tokens_cached: 0,
      prompt_tokens_computed: 0,
      completion_tokens: 0,
      requests: 0,
      unmeasured_requests: 0,
      routes: [],
    },
  };
}

/** @param {number} seed @param {number} count @param {string} name @param {number} [replicas] */
export function conversations(seed, count, name, replicas = 4) {
  const next = random(seed);
  return Array.from({ length: count }, (_, i) => {
    const context = 15_600 + Math.floor(next() * 110_000);
    const id = hex(next);
    /** @type {Conversation} */
    const conversation = {
      id,
      model: name,
      session: next() < 0.8 ? id : hex(next),
      agent: next() < 0.8 ? null : hex(next),
      named_by: 'x-claude-code-session-id',
      replica: Math.floor(next() * replicas),
      turns: 1 + Math.floor(next() * 60),
      in_flight: i < 4 ? 1 : 0,
      context_tokens: context,
      own_tokens: context - 15_500,
      last_route: next() < 0.93 ? 'sticky' : 'spilled',
      last_active: now() - i * 3.1,
      alarm: i === 2 ? billingAlarm() : null,
    };
    return conversation;
  });
}

/** A machine at work. @returns {Scene} */
export function busy() {
  const rows = [
    {
      in_flight: 6,
      running: 6,
      waiting: 0,
      kv_cache_usage: 0.713,
      conversations: 11,
      committed_tokens: 402_113,
    },
    {
      in_flight: 9,
      running: 8,
      waiting: 1,
      kv_cache_usage: 0.934,
      conversations: 14,
      committed_tokens: 470_020,
    },
    {
      in_flight: 3,
      running: 3,
      waiting: 0,
      kv_cache_usage: 0.402,
      conversations: 9,
      committed_tokens: 287_455,
    },
    {
      in_flight: 5,
      running: 5,
      waiting: 0,
      kv_cache_usage: 0.561,
      conversations: 10,
      committed_tokens: 338_902,
    },
  ].map((figures, n) =>
    replica(n, {
      ...figures,
      new: 31 + n,
      sticky: 2_846 + n * 211,
      spilled_in: n === 2 ? 48 : 3,
      moved_in: n,
      client_pinned: n === 0 ? 12 : 0,
      prefix_cache_hit_rate: 0.951 - n * 0.013,
    }),
  );
  const first = model('qwen3-4b-dp4', rows, {
    sticky_percent: 99.49,
    in_flight: 23,
    counters_since: now() - 3 * 3600 - 720,
  });
  first.engine.kind = 'attached';
  first.aliases = ['claude-*'];
  const second = model(
    'demo',
    [0, 1].map((n) => replica(n, { new: 1, sticky: 4 })),
    {
      sticky_percent: 100,
    },
  );
  return {
    models: [first, second],
    requests: requests(7, 400, 'qwen3-4b-dp4'),
    conversations: conversations(7, 44, 'qwen3-4b-dp4'),
    keys: keys(6),
  };
}

/** Some replicas are out, one is wedged, one is being drained, and a scrape is old. @returns {Scene} */
export function degraded() {
  const scene = busy();
  const [first] = scene.models;
  if (!first) throw new Error('busy has a model');
  first.state = 'degraded';
  first.state_reason = 'Replica 1 makes no progress (14 s); replica 3 refuses connections.';
  const changes = /** @type {Partial<Replica>[]} */ ([
    { state: 'draining' },
    { state: 'wedged', scrape_age_ms: 900 },
    { state: 'ramping', scrape_age_ms: 8_400 },
    {
      state: 'down',
      in_flight: 0,
      running: null,
      waiting: null,
      kv_cache_usage: null,
      scrape_age_ms: 74_000,
    },
  ]);
  first.routing.replicas.forEach((row, n) => Object.assign(row, changes[n]));
  first.routing.leases = full(first.routing.replicas.length);
  first.routing.spill_threshold = { value: 3, source: 'set' };
  return scene;
}

/** Affinity switched off, so vLLM's balancer places everything. @returns {Scene} */
export function balanced() {
  const scene = busy();
  const [first] = scene.models;
  if (!first) throw new Error('busy has a model');
  Object.assign(first.routing, { affinity: false, balanced: 1_204 });
  return scene;
}

/** Eight models of eight replicas, ten thousand conversations. @returns {Scene} */
export function much() {
  const scene = busy();
  for (let i = 0; i < 6; i++) {
    const next = random(i);
    const rows = Array.from({ length: 8 }, (_, n) =>
      replica(n, { in_flight: Math.floor(next() * 20), sticky: Math.floor(next() * 1e6) }),
    );
    scene.models.push(
      model(`mistralai/Devstral-Small-2-24B-Instruct-2512-long-name-${i}`, rows, {
        sticky_percent: 90 + i,
        in_flight: 80 + i,
      }),
    );
  }
  scene.requests = requests(9, 1_000, 'qwen3-4b-dp4');
  scene.conversations = conversations(9, 10_000, 'qwen3-4b-dp4');
  scene.keys = keys(120);
  return scene;
}

/** @param {number} number @returns {Key[]} */
export function keys(number) {
  const next = random(5);
  return Array.from({ length: number }, (_, i) => ({
    name: i === 0 ? 'boss' : `team-${String(i).padStart(2, '0')}`,
    role: i === 0 ? 'admin' : 'client',
    created: Math.floor(now()) - 86_400 * (i + 1),
    expires: i % 3 === 1 ? Math.floor(now()) + 86_400 * (i - 4) : null,
    expired: i % 3 === 1 && i < 4,
    limits: {
      requests_per_min: i % 2 ? 120 : null,
      concurrent_requests: i % 2 ? 16 : null,
      tokens_per_min: i % 4 === 1 ? 2_000_000 : null,
    },
    requests: i === 0 ? 0 : Math.floor(next() * 40_000),
    limited: i % 4 === 1 ? Math.floor(next() * 500) : 0,
    in_flight: i === 0 ? 0 : Math.floor(next() * 12),
    prompt_tokens_cached: i === 0 ? 0 : Math.floor(next() * 4e9),
    prompt_tokens_computed: i === 0 ? 0 : Math.floor(next() * 4e8),
    completion_tokens: i === 0 ? 0 : Math.floor(next() * 9e6),
    last_used: i === 0 ? null : now() - next() * 4_000,
  }));
}
