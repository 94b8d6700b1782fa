// The pages' pure parts, as Vite builds them for the browser.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

/** @param {string} path below `src` */
async function load(path) {
  const file = fileURLToPath(new URL(`../src/${path}`, import.meta.url));
  const { module } = await runnerImport(file, { configFile: false, logLevel: 'error' });
  return /** @type {any} */ (module);
}

describe('numbers and times', async () => {
  const format = await load('lib/format.ts');

  /** @type {[string, unknown, string][]} */
  const cases = [
    ['count', null, '–'],
    ['count', undefined, '–'],
    ['count', 0, '0'],
    ['count', 12480, '12,480'],
    ['compact', null, '–'],
    ['compact', 999, '999'],
    ['compact', 16_000, '16.0K'],
    ['compact', 470_020, '470K'],
    ['rate', null, '–'],
    ['rate', 0, '0.0'],
    ['rate', 1234.5, '1,235'],
    ['percent', null, '–'],
    ['percent', 0, '0.0 %'],
    ['percent', 100, '100.0 %'],
    ['share', 0.9312, '93.1 %'],
    ['share', null, '–'],
    ['duration', null, '–'],
    ['duration', 0, '0 ms'],
    ['duration', 0.4, '< 1 ms'],
    ['duration', 231.4, '231 ms'],
    ['duration', 1320, '1.32 s'],
    ['duration', 62_000, '1 min 2 s'],
    ['age', 0, '0 s'],
    ['age', 59.9, '59 s'],
    ['age', 60, '1 min'],
    ['age', 3599, '59 min'],
    ['age', 7500, '2 h 5 min'],
    ['age', 200_000, '2 d'],
    ['age', -3, '0 s'],
    ['ago', 0.5, 'just now'],
    ['iso', 0, '1970-01-01T00:00:00.000Z'],
    ['iso', null, ''],
    ['shortId', '3f2a9c0d11e2b4a7', '3f2a9c'],
  ];
  for (const [name, value, expected] of cases) {
    it(`${name}(${value}) is ${expected}`, () => assert.equal(format[name](value), expected));
  }
});

describe('back-off', async () => {
  const { backoffMs } = await load('lib/backoff.ts');

  it('doubles from one second to fifteen', () => {
    const waits = [1, 2, 3, 4, 5, 6, 1_000].map((failures) => backoffMs(failures, 0.5));
    assert.deepEqual(waits, [1_000, 2_000, 4_000, 8_000, 15_000, 15_000, 15_000]);
  });

  it('is spread by a fifth either way', () => {
    assert.equal(backoffMs(1, 0), 800);
    assert.equal(Math.round(backoffMs(1, 1)), 1_200);
  });
});

describe('the lines for Claude Code', async () => {
  const claude = await load('lib/claude.ts');

  it('survive a name that a shell would take apart', () => {
    const shell = claude.asShell(claude.claudeEnvironment('http://host:1', "it's $HOME"));
    assert.match(shell, /^export ANTHROPIC_MODEL='it'\\''s \$HOME'$/m);
  });
});

describe('the chart of the stats', async () => {
  const { statsChart } = await load('charts/stats.ts');
  const points = [
    {
      t: 0,
      prompt_tokens_cached_per_s: 5,
      prompt_tokens_computed_per_s: 0,
      ttfb_ms_p50: 40,
      routes: [
        { route: 'sticky', requests: 3 },
        { route: null, requests: 1 },
      ],
    },
    { t: 60, routes: [] },
    {
      t: 120,
      prompt_tokens_cached_per_s: 7.5,
      completion_tokens_per_s: 1,
      routes: [{ route: 'sticky', requests: 2 }],
    },
  ];
  const marks = [
    { t: 61, model: null, text: 'warden started' },
    { t: 119, model: 'demo', text: 'engine ready' },
    { t: 120, model: 'demo', text: 'affinity off' },
  ];
  const { series } = statsChart({ step_s: 60, points, marks }).option({});

  it("draws the API's points as they are, a gap as a gap", () => {
    /** @param {any} item */
    const value = (item) => (item !== null && typeof item === 'object' ? item.value : item);
    const drawn = Object.fromEntries(
      series.map((/** @type {any} */ one) => [one.id, one.data.map(value)]),
    );
    assert.deepEqual(drawn, {
      cached: [5, null, 7.5],
      computed: [0, null, null],
      completion: [null, null, 1],
      ttfb_ms_p50: [40, null, null],
      ttfb_ms_p95: [null, null, null],
      'route sticky': [3, null, 2],
      'route no decision': [1, null, null],
    });
  });

  it('has one tick for each step in which something was started or changed', () => {
    const ticks = series.find((/** @type {any} */ one) => one.id === 'cached').markLine.data;
    assert.deepEqual(ticks, [{ xAxis: 1 }, { xAxis: 2 }]);
  });
});

describe('CSV', async () => {
  const { statsCsv } = await load('lib/csv.ts');

  it('leaves a gap empty and keeps a zero', () => {
    const csv = statsCsv({
      points: [
        { t: 60, routes: [] },
        { t: 120, requests: 0, completion_tokens: 7, routes: [] },
      ],
    });
    const [head, gap, point] = csv.split('\n');
    assert.match(head, /^t,prompt_tokens_cached,prompt_tokens_computed,completion_tokens,/);
    assert.equal(gap, '1970-01-01T00:01:00.000Z,,,,,,,,,,');
    assert.equal(point, '1970-01-01T00:02:00.000Z,,,7,,,,0,,,');
  });

  it('counts by route', () => {
    const csv = statsCsv({
      points: [
        { t: 60, routes: [] },
        {
          t: 120,
          requests: 3,
          routes: [
            { route: 'sticky', requests: 2 },
            { route: 'new', requests: 1 },
          ],
        },
        { t: 180, requests: 1, routes: [{ route: null, requests: 1 }] },
      ],
    });
    const [head, ...points] = csv.split('\n');
    assert.match(head, /,ttfb_ms_p95,requests_new,requests_none,requests_sticky$/);
    assert.match(points[0], /,,,,$/);
    assert.match(points[1], /,1,0,2$/);
    assert.match(points[2], /,0,1,0$/);
  });
});
