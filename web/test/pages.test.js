// What holds for every page in every state: no error on the console, no request to another host, no
// violation of axe's rules, no sideways scrolling at 375 px, and a first view that stays small.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { launch, noBrowser, open, serverIsDown } from './support/browser.js';
import { MockWarden } from './support/mock.js';
import * as scenes from './support/scenes.js';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const built = fileURLToPath(new URL('../../.cache/pages/', import.meta.url));
const first_view_bytes_max = 300 * 1024;

const places = ['/', '/models/qwen3-4b-dp4', '/models/unknown', '/nowhere'];

describe('every page', { skip: noBrowser ?? false, timeout: 180_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    for (const width of [1440, 375]) {
      it(`is accessible and fits, ${colorScheme}, ${width} px`, async () => {
        const warden = await new MockWarden(scenes.degraded()).start();
        const { page, context, faults } = await open(browser, warden.url, {
          viewport: { width, height: 900 },
          colorScheme,
          reducedMotion: 'reduce',
        });
        for (const place of places) {
          await page.goto(place);
          await page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
          const overflow = await page.evaluate(
            () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
          );
          assert.equal(overflow, 0, `${place} scrolls sideways`);
          await assertAccessible(page, place);
        }
        await context.close();
        await warden.stop();
        // The browser itself reports the answer 404 for the model that is not there.
        assert.deepEqual(
          faults.filter((fault) => !serverIsDown.test(fault)),
          [],
        );
      });
    }
  }

  it('is accessible with its dialogs open', async () => {
    const warden = await new MockWarden(scenes.busy()).start();
    const { page, context, faults } = await open(browser, warden.url);
    await page.goto('/models/qwen3-4b-dp4');
    await page.getByRole('switch').click();
    await assertAccessible(page, 'affinity');
    await page.keyboard.press('Escape');
    await page.getByRole('button', { name: /Spill threshold/ }).click();
    await assertAccessible(page, 'spill threshold');
    await page.keyboard.press('Escape');
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
    await assertAccessible(page, 'keyboard');
    await page.keyboard.press('Escape');
    await context.close();
    await warden.stop();
    assert.deepEqual(faults, []);
  });

  it('says what failed when the API fails, and what to do', async () => {
    const warden = await new MockWarden(scenes.busy()).start();
    warden.failing = 503;
    const { page, context, faults } = await open(browser, warden.url);
    await page.goto('/');
    const alert = page.getByRole('alert');
    await alert.getByText('The history is not available.').waitFor();
    await alert.getByText('journalctl').waitFor();
    warden.failing = null;
    await alert.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('link', { name: 'qwen3-4b-dp4' }).waitFor();
    await context.close();
    await warden.stop();
    assert.deepEqual(
      faults.filter((fault) => !serverIsDown.test(fault)),
      [],
    );
  });

  it('keeps a chosen theme over a reload', async () => {
    const warden = await new MockWarden(scenes.idle()).start();
    const { page, context, faults } = await open(browser, warden.url, { colorScheme: 'light' });
    await page.goto('/');
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByRole('button', { name: 'Theme: as the system' }).click();
    await page.getByRole('button', { name: 'Theme: light' }).click();
    assert.notEqual(await ground(), light);
    await page.reload();
    await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
    assert.notEqual(await ground(), light);
    await context.close();
    await warden.stop();
    assert.deepEqual(faults, []);
  });

  it('loads less than 300 KB compressed at first view', async () => {
    const warden = await new MockWarden(scenes.busy()).start();
    const { page, context } = await open(browser, warden.url);
    /** @type {string[]} */
    const loaded = [];
    page.on('request', (request) => {
      const path = new URL(request.url()).pathname;
      if (!path.startsWith('/api/')) loaded.push(path === '/' ? '/index.html' : path);
    });
    await page.goto('/');
    await page.getByRole('link', { name: 'qwen3-4b-dp4' }).waitFor();
    await context.close();
    await warden.stop();
    const files = await readdir(built, { recursive: true });
    let bytes = 0;
    for (const path of loaded) {
      const name = path.slice(1);
      bytes += (await readFile(built + (files.includes(`${name}.gz`) ? `${name}.gz` : name)))
        .length;
    }
    assert.ok(
      loaded.some((path) => path.endsWith('.js')),
      `only ${loaded} was loaded`,
    );
    assert.ok(bytes < first_view_bytes_max, `${bytes} bytes`);
  });
});

/** @param {import('playwright-core').Page} page @param {string} where */
async function assertAccessible(page, where) {
  // Through the debugger, which the content security policy does not bind.
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    // @ts-expect-error axe puts itself on the window
    const { violations } = await window.axe.run();
    return violations.map((/** @type {any} */ one) => ({
      id: one.id,
      nodes: one.nodes.map(
        (/** @type {any} */ node) => `${node.html.slice(0, 160)}: ${node.failureSummary}`,
      ),
    }));
  });
  assert.deepEqual(violations, [], where);
}
