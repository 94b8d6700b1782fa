// Every page of a real warden, wide and narrow, light and dark: looked at, and its picture kept for
// people in artifacts/pages. Nothing compares the pictures.

import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { assertAccessible, assertFits } from './accessible.js';
import { open, serverIsDown } from './browser.js';

const folder = fileURLToPath(new URL('../../../artifacts/pages/', import.meta.url));

const wide = { width: 1440, height: 900 };
const narrow = { width: 375, height: 812 };

/**
 * Two of them differ in all that axe's rules can tell apart, and are examined; the others are pictures.
 * @type {{ name: string, viewport: typeof wide, colorScheme: 'light' | 'dark', examined: boolean }[]}
 */
export const looks = [
  { name: 'wide-light', viewport: wide, colorScheme: 'light', examined: true },
  { name: 'wide-dark', viewport: wide, colorScheme: 'dark', examined: false },
  { name: 'narrow-light', viewport: narrow, colorScheme: 'light', examined: false },
  { name: 'narrow-dark', viewport: narrow, colorScheme: 'dark', examined: true },
];

/**
 * Names and paths of all pages, with a conversation's where there is one.
 * @param {string} [conversation] its id
 */
export function places(conversation) {
  /** @type {Record<string, string>} */
  const paths = {
    models: '/',
    model: '/models/demo',
    stats: '/stats?range=15m',
    'stats-table': '/stats?range=15m&view=table',
    conversations: '/conversations',
    requests: '/requests',
    keys: '/keys',
  };
  if (conversation) paths['conversation'] = `/conversations/${conversation}`;
  return paths;
}

/**
 * Opens every page in one look.
 * @param {import('playwright-core').Browser} browser @param {string} origin
 * @param {typeof looks[number]} look @param {Record<string, string>} paths
 */
export async function openAll(browser, origin, { name, examined, ...options }, paths) {
  /** @type {(Awaited<ReturnType<typeof open>> & { place: string })[]} */
  const tabs = [];
  for (const [place, path] of Object.entries(paths)) {
    // Each in a context of its own: a browser has six connections to a host, and in headless chromium
    // every tab counts as looked at, so that each holds one for its stream of events.
    const tab = await open(browser, origin, { ...options, reducedMotion: 'reduce' });
    await tab.page.goto(path);
    await tab.page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
    tabs.push({ ...tab, place });
  }
  return {
    /** Looks at every page as it stands now, and keeps its picture. @param {string} state */
    async look(state) {
      await mkdir(folder, { recursive: true });
      for (const { page, place, faults } of tabs) {
        const shot = `serve-${state}-${place}-${name}`;
        await assertFits(page, shot);
        if (examined) await assertAccessible(page, shot);
        await page.screenshot({ path: `${folder}${shot}.png`, fullPage: true });
        const own = faults.filter((fault) => !serverIsDown.test(fault));
        assert.deepEqual(own, [], shot);
      }
    },
    pages: () => tabs.map(({ page }) => page),
    close: () => Promise.all(tabs.map(({ context }) => context.close())),
  };
}
