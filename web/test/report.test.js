// The report of a bench: one file that opens without a network, in both themes, at every width, on
// paper, and with figures missing.

import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { launch, noBrowser } from './support/browser.js';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const built = fileURLToPath(new URL('../../.cache/report/report.html', import.meta.url));

/** @param {number} sessions @param {string} policy @param {number | null} figure */
const cell = (sessions, policy, figure) => ({
  workload: 'published',
  sessions,
  policy,
  runs: 2,
  ttfb_s_p50: figure,
  ttfb_s_p50_sd: 0.25,
  ttfb_s_p95: figure === null ? null : figure * 4,
  sessions_per_hour: 1234,
  sessions_per_hour_sd: 123,
  output_tokens_per_min: 23_456,
  output_tokens_per_min_sd: 1_234,
  prefix_hit_percent: 88.8,
  own_hit_percent: 88.8,
  stayed_percent: 100,
  censored: 12,
  failed: 0,
  replicas_busy: figure,
  prefix_hit_percent_vllm: figure === null ? null : figure * 20,
});

const report = {
  version: '0.0.0',
  sources: ['bench', 'simulation', 'published'].map((kind, index) => ({
    kind,
    name: ['Measured', 'Simulated', 'Published'][index],
    started: kind === 'published' ? null : 1_800_000_000,
    settings: {
      model: 'a-model',
      shape: { first_tokens: 7350 },
      warnings: kind === 'bench' ? ['the warden counted more than this client sent'] : [],
      profile: { sources: { kv_tokens: ['fitted', 'to the published rows'] } },
    },
    cells: [
      cell(4, 'balanced', 2.05),
      cell(4, 'affinity', 0.38),
      cell(8, 'balanced', 2.33),
      cell(8, 'affinity', null),
      cell(16, 'affinity-gauge', 2.4),
    ],
  })),
};

describe('the report', { skip: noBrowser ?? false, timeout: 120_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  let folder = '';
  let url = '';
  before(async () => {
    browser = await launch();
    folder = await mkdtemp(join(tmpdir(), 'report-'));
    const page = await readFile(built, 'utf8');
    const open = '<script id="report" type="application/json">';
    const [head, rest] = page.split(open);
    assert.ok(head && rest, 'the page has one place for data');
    const file = join(folder, 'report.html');
    await writeFile(
      file,
      head + open + JSON.stringify(report) + rest.slice(rest.indexOf('</script>')),
    );
    url = pathToFileURL(file).href;
  });
  after(async () => {
    await browser.close();
    await rm(folder, { recursive: true });
  });

  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    for (const width of [1280, 375]) {
      it(`stands alone, fits and is accessible, ${colorScheme}, ${width} px`, async () => {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        /** @type {string[]} */
        const faults = [];
        page.on('console', (message) => faults.push(message.text()));
        page.on('pageerror', (error) => faults.push(String(error)));
        page.on('request', (request) => {
          if (request.url() !== url) faults.push(`a request to ${request.url()}`);
        });
        await page.goto(url);
        await page.locator('canvas').nth(8).waitFor();
        for (const text of ['2.05', '± 0.25', 'a-model', 'the warden counted more']) {
          await page.getByText(text).first().waitFor();
        }
        const overflow = await page.evaluate(
          () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
        );
        assert.equal(overflow, 0, 'scrolls sideways');
        await page.evaluate(axe);
        const found = await page.evaluate('axe.run()');
        const { violations } = /** @type {import('axe-core').AxeResults} */ (found);
        assert.deepEqual(
          violations.map((violation) => violation.id),
          [],
        );
        assert.deepEqual(faults, []);
        await page.close();
      });
    }
  }

  it('shows all columns of its tables in a usual window', async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    await page.goto(url);
    const tables = page.locator('.scroll');
    await tables.first().waitFor();
    const hidden_px = await tables.evaluateAll((all) =>
      all.map((one) => one.scrollWidth - one.clientWidth),
    );
    assert.deepEqual(hidden_px, [0, 0, 0]);
    await page.close();
  });

  it('is printed on paper in light colours', async () => {
    const page = await browser.newPage({ colorScheme: 'dark' });
    await page.goto(url);
    await page.locator('canvas').nth(8).waitFor();
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    assert.equal(await theme(), 'light');
    const legend = await page
      .locator('.sample')
      .first()
      .evaluate((sample) => getComputedStyle(sample, '::before').printColorAdjust);
    assert.equal(legend, 'exact', 'the legend keeps its colours');
    await page.evaluate(() => dispatchEvent(new Event('afterprint')));
    assert.equal(await theme(), undefined);
    await page.close();
  });
});
