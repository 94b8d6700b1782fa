// What holds for every page in every state: no error on the console, no request to another host, no
// violation of axe's rules, no sideways scrolling at 375 px, and a first view that stays small.

import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { assertAccessible, assertFits } from './support/accessible.js';
import { launch, noBrowser, serverIsDown, visit } from './support/browser.js';
import * as scenes from './support/scenes.js';

const built = fileURLToPath(new URL('../../.cache/pages/', import.meta.url));
const first_view_bytes_max = 300 * 1024;

const places = [
  '/',
  '/models/qwen3-4b-dp4',
  '/models/unknown',
  '/stats',
  '/stats?view=table',
  '/conversations',
  `/conversations/${scenes.busy().conversations[2]?.id}`,
  '/requests',
  '/keys',
  '/nowhere',
];

describe('every page', { skip: noBrowser ?? false, timeout: 300_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    for (const width of colorScheme === 'light' ? [1440, 800, 375] : [1440, 375]) {
      const options = {
        viewport: { width, height: 900 },
        colorScheme,
        reducedMotion: /** @type {const} */ ('reduce'),
        // The browser itself reports the answer 404 for the model that is not there.
        allow: serverIsDown,
      };
      it(`is accessible and fits, ${colorScheme}, ${width} px`, () =>
        visit(
          browser,
          scenes.degraded(),
          async ({ page }) => {
            for (const place of places) {
              await page.goto(place);
              await page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
              await assertFits(page, place);
              await assertAccessible(page, place);
            }
          },
          options,
        ));
    }
  }

  it('is accessible with its dialogs open', () =>
    visit(browser, scenes.busy(), async ({ page }) => {
      await page.goto('/models/qwen3-4b-dp4');
      for (const name of ['Affinity', 'Leases']) {
        await page.getByRole('switch', { name }).click();
        await assertAccessible(page, name);
        await page.keyboard.press('Escape');
      }
      await page.getByRole('button', { name: /Spill threshold/ }).click();
      await assertAccessible(page, 'spill threshold');
      await page.keyboard.press('Escape');
      await page.getByRole('button', { name: 'Replica 1 Up' }).click();
      await assertAccessible(page, 'replica');
      await page.keyboard.press('Escape');
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keyboard' }).waitFor();
      await assertAccessible(page, 'keyboard');
      await page.keyboard.press('Escape');
    }));

  it('says what failed when the API fails, and what to do', () =>
    visit(
      browser,
      scenes.busy(),
      async ({ page, warden }) => {
        warden.failing = 503;
        await page.goto('/');
        const alert = page.getByRole('alert');
        await alert.getByText('The history is not available.').waitFor();
        await alert.getByText('journalctl').waitFor();
        warden.failing = null;
        await alert.getByRole('button', { name: 'Try again' }).click();
        await page.getByRole('link', { name: 'qwen3-4b-dp4' }).waitFor();
      },
      { allow: serverIsDown },
    ));

  it('keeps the last figures readable while the warden is away', () =>
    visit(
      browser,
      scenes.busy(),
      async ({ page, warden }) => {
        for (const place of ['/models/qwen3-4b-dp4', '/stats', '/requests']) {
          warden.failing = null;
          await page.goto(place);
          await page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
          await page.getByText('Updated').waitFor();
          warden.failing = 503;
          warden.change(() => {});
          await page.getByRole('alert').first().getByText('The figures below are').waitFor();
          await assertAccessible(page, place);
        }
      },
      { allow: serverIsDown, reducedMotion: 'reduce' },
    ));

  it('keeps a chosen theme over a reload', () =>
    visit(
      browser,
      scenes.idle(),
      async ({ page }) => {
        await page.goto('/');
        const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        const light = await ground();
        await page.getByRole('button', { name: 'Theme: as the system' }).click();
        await page.getByRole('button', { name: 'Theme: light' }).click();
        assert.notEqual(await ground(), light);
        await page.reload();
        await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
        assert.notEqual(await ground(), light);
      },
      { colorScheme: 'light' },
    ));

  for (const [place, shown] of /** @type {const} */ ([
    ['/', 'table'],
    ['/stats', 'canvas'],
  ])) {
    it(`loads less than 300 KB compressed at first view of ${place}`, () =>
      visit(browser, scenes.busy(), async ({ page }) => {
        /** @type {string[]} */
        const loaded = [];
        page.on('request', (request) => {
          const { pathname } = new URL(request.url());
          if (!pathname.startsWith('/api/')) {
            loaded.push(pathname === place ? 'index.html' : pathname.slice(1));
          }
        });
        await page.goto(place);
        await page.locator(shown).first().waitFor();
        const files = await readdir(built, { recursive: true });
        let bytes = 0;
        for (const name of loaded) {
          const compressed = files.includes(`${name}.gz`) ? `${name}.gz` : name;
          bytes += (await readFile(built + compressed)).length;
        }
        assert.ok(
          loaded.some((name) => name.endsWith('.js')),
          `only ${loaded} was loaded`,
        );
        assert.ok(bytes < first_view_bytes_max, `${bytes} bytes`);
      }));
  }
});
