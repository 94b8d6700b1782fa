// The chart of the Stats page against the real service: every bar that it draws is a point of the API,
// and a restart is a tick and a gap, not a loss.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { noBrowser, serverIsDown } from './support/browser.js';
import { eventually } from './support/eventually.js';
import { Load } from './support/load.js';
import { noWarden } from './support/warden.js';
import { served } from './support/served.js';

const query = '/stats?range=15m&step=10s';
const dash = '–';
/** Where the chart's axes end, left and right of them, in pixels. */
const margin_px = { left: 56, right: 8 };

/** @param {number | null | undefined} value */
const count = (value) => (value == null ? dash : value.toLocaleString('en'));
/** @param {number | null | undefined} value */
const rate = (value) =>
  value == null ? dash : `${value.toLocaleString('en', { maximumFractionDigits: 1 })} tokens/s`;

/** @param {any} point */
const expectedTip = (point) => ({
  Cached: rate(point.prompt_tokens_cached_per_s),
  Computed: rate(point.prompt_tokens_computed_per_s),
  Completion: rate(point.completion_tokens_per_s),
  'Cached tokens': count(point.prompt_tokens_cached),
  'Computed tokens': count(point.prompt_tokens_computed),
  'Completion tokens': count(point.completion_tokens),
  'Requests ended': count(point.requests),
});

/** @param {any} point */
const expectedRow = (point) => [
  count(point.prompt_tokens_cached),
  count(point.prompt_tokens_computed),
  count(point.completion_tokens),
  count(point.requests),
  count(point.unmeasured_requests),
];

/**
 * What the chart says about one step.
 * @param {import('playwright-core').Page} page @param {number} index @param {number} steps
 */
async function tipAt(page, index, steps) {
  const box = await page.locator('.canvas').boundingBox();
  assert.ok(box);
  const step_px = (box.width - margin_px.left - margin_px.right) / steps;
  await page.mouse.move(box.x + margin_px.left + (index + 0.5) * step_px, box.y + 100);
  const tip = page.locator('.chart-tip');
  await tip.waitFor();
  return tip.evaluate((element) => ({
    figures: Object.fromEntries(
      [...element.querySelectorAll('dt')].map((dt) => [
        dt.textContent,
        dt.nextElementSibling?.textContent,
      ]),
    ),
    note: element.querySelector('p')?.textContent ?? '',
  }));
}

describe(
  'the stats of lm-warden serve',
  {
    skip: noBrowser ?? noWarden ?? false,
    timeout: 300_000,
  },
  () => {
    const suite = served({ viewport: { width: 1440, height: 900 } });
    const { warden } = suite;

    /** @param {number} turns how many have to come back */
    async function talk(turns) {
      const load = new Load(warden, 4);
      await eventually(async () => assert.ok(load.turns >= turns));
      await load.stop();
    }

    it('are the points of the API, bar by bar and row by row', async () => {
      const { page } = suite.tab;
      await page.goto('/stats?range=15m');
      await page.getByText('No request ended within this range').waitFor();
      await page.evaluate(() => Object.assign(window, { notReloaded: true }));
      await talk(20);
      await page.locator('canvas').first().waitFor();
      await eventually(async () => {
        const { points } = await warden.get(query);
        /** @type {number[]} */
        const filled = [];
        points.forEach((/** @type {any} */ point, /** @type {number} */ index) => {
          if (point.requests) filled.push(index);
        });
        assert.ok(filled.length > 0);
        for (const index of filled) {
          const { figures } = await tipAt(page, index, points.length);
          const expected = expectedTip(points[index]);
          const same = Object.keys(expected).map((key) => [key, figures[key]]);
          assert.deepEqual(Object.fromEntries(same), expected);
        }
      });

      await page.getByRole('button', { name: 'As table' }).click();
      await eventually(async () => {
        const { points } = await warden.get(query);
        const rows = page.getByRole('region', { name: 'Figures over time' }).locator('tbody tr');
        const shown = await rows.evaluateAll((all) =>
          all.map((row) => [...row.querySelectorAll('td')].slice(0, 5).map((td) => td.innerText)),
        );
        assert.deepEqual(shown.toReversed(), points.map(expectedRow));
      });
      await page.getByRole('button', { name: 'As chart' }).click();
    });

    it('keep what was before a restart, mark it with a tick, and leave a gap', async () => {
      const { page } = suite.tab;
      const before = (await warden.get(query)).summary.requests;
      await warden.stop();
      await page.getByRole('alert').first().waitFor();
      await warden.start();
      await page.getByRole('button', { name: 'Live', exact: true }).waitFor({ timeout: 30_000 });
      await eventually(async () => assert.equal(await page.getByRole('alert').count(), 0));

      // A step in which nothing ends has to pass whole.
      await eventually(async () => {
        const { points } = await warden.get(query);
        assert.equal(points.at(-2).requests ?? null, null);
      }, 40_000);
      await talk(4);
      await eventually(async () => {
        const { points, marks, summary, step_s } = await warden.get(query);
        assert.ok(summary.requests >= before + 4, 'the requests before the restart count');
        const starts = marks.filter((/** @type {any} */ mark) => mark.kind === 'warden_started');
        assert.equal(starts.length, 2);
        const index = Math.floor((starts[1].t - points[0].t) / step_s);
        assert.ok((await tipAt(page, index, points.length)).note.includes(starts[1].text));

        const filled = points.findLastIndex((/** @type {any} */ point) => point.requests);
        const gap = points.findLastIndex(
          (/** @type {any} */ point, /** @type {number} */ at) => at < filled && !point.requests,
        );
        assert.ok(points.slice(0, gap).some((/** @type {any} */ point) => point.requests));
        const { figures } = await tipAt(page, gap, points.length);
        assert.equal(figures['Cached'], dash);
        assert.equal(figures['Requests ended'], dash);
      });
      const list = page.getByRole('region', { name: 'Starts and changes' });
      assert.equal(await list.getByText(/^lm-warden .* started/).count(), 2);
      assert.equal(await page.evaluate(() => 'notReloaded' in window), true);
    });

    it('had nothing to complain about on the console', () => {
      assert.deepEqual(
        suite.tab.faults.filter((fault) => !serverIsDown.test(fault)),
        [],
      );
    });
  },
);
