// Pictures of every page in every state, for people to look at: `npm run pictures [NAME…]` writes
// them to artifacts/pages, from a mock warden that can be put into any state. Not a test: nothing
// compares them. What docs/pages.md shows comes from the real one: see docs-pictures.js.

import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { launch, noBrowser, open } from './support/browser.js';
import { MockWarden } from './support/mock.js';
import * as scenes from './support/scenes.js';

const folder = fileURLToPath(new URL('../../artifacts/pages/', import.meta.url));
const wide = { width: 1440, height: 900 };
const narrow = { width: 375, height: 812 };
const conversation = scenes.busy().conversations[2]?.id;
const busy = '/models/qwen3-4b-dp4';

/**
 * @typedef {{ name: string, path: string, scene: () => scenes.Scene, size?: typeof wide,
 *   dark?: boolean, failing?: number, act?: (page: import('playwright-core').Page, warden: MockWarden) => Promise<void> }} Shot
 */

/**
 * The pages as whoever has no key sees them, after a wrong one.
 * @type {NonNullable<Shot['act']>}
 */
async function shut(page, warden) {
  warden.session = { required: true, name: null, role: null };
  await page.reload();
  await page.getByLabel('Admin key').fill('lmw_wrong');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('alert').waitFor();
}

/** @type {Shot[]} */
const shots = [
  { name: 'models-none', path: '/', scene: scenes.none },
  { name: 'models-idle', path: '/', scene: scenes.idle },
  { name: 'models-busy', path: '/', scene: scenes.busy },
  { name: 'models-busy-dark', path: '/', scene: scenes.busy, dark: true },
  { name: 'models-much', path: '/', scene: scenes.much },
  { name: 'models-narrow', path: '/', scene: scenes.degraded, size: narrow },
  { name: 'models-broken', path: '/', scene: scenes.busy, failing: 503 },
  { name: 'model-idle', path: '/models/demo', scene: scenes.idle },
  { name: 'model-loading', path: '/models/demo', scene: scenes.loading },
  { name: 'model-busy', path: busy, scene: scenes.busy },
  { name: 'model-busy-dark', path: busy, scene: scenes.busy, dark: true },
  { name: 'model-narrow', path: busy, scene: scenes.busy, size: narrow },
  { name: 'model-narrow-dark', path: busy, scene: scenes.degraded, size: narrow, dark: true },
  { name: 'model-degraded', path: busy, scene: scenes.degraded },
  { name: 'model-balanced', path: busy, scene: scenes.balanced },
  {
    name: 'model-away',
    path: busy,
    scene: scenes.busy,
    act: async (page, warden) => {
      await warden.stop();
      await page.getByRole('alert').first().waitFor();
    },
  },
  { name: 'models-huge', path: '/', scene: scenes.much, size: { width: 1920, height: 1080 } },
  { name: 'model-missing', path: '/models/nope', scene: scenes.busy },
  {
    name: 'model-decision',
    path: busy,
    scene: scenes.busy,
    act: (page) =>
      page
        .getByRole('button', { name: /spilled/ })
        .first()
        .click(),
  },
  {
    name: 'model-affinity',
    path: busy,
    scene: scenes.busy,
    act: (page) => page.getByRole('switch', { name: 'Affinity' }).click(),
  },
  {
    name: 'model-replica',
    path: busy,
    scene: scenes.degraded,
    act: (page) => page.getByRole('button', { name: /Replica 1/ }).click(),
  },
  {
    name: 'model-spill',
    path: busy,
    scene: scenes.busy,
    act: (page) => page.getByRole('button', { name: /Spill threshold/ }).click(),
  },
  ...['/stats', '/conversations', '/requests', '/keys'].flatMap((path) => {
    const name = path.slice(1);
    return [
      { name, path, scene: scenes.busy },
      { name: `${name}-dark`, path, scene: scenes.busy, dark: true },
      { name: `${name}-narrow`, path, scene: scenes.busy, size: narrow },
      { name: `${name}-none`, path, scene: scenes.idle },
      { name: `${name}-much`, path, scene: scenes.much },
    ];
  }),
  ...[false, true].flatMap((dark) => [
    { name: dark ? 'login-dark' : 'login', path: '/', scene: scenes.busy, dark, act: shut },
    {
      name: dark ? 'login-narrow-dark' : 'login-narrow',
      path: '/',
      scene: scenes.busy,
      dark,
      size: narrow,
      act: shut,
    },
  ]),
  { name: 'stats-table', path: '/stats?view=table', scene: scenes.busy },
  {
    name: 'stats-tip',
    path: '/stats?range=15m',
    scene: scenes.busy,
    dark: true,
    act: async (page) => {
      await page.locator('canvas').first().waitFor();
      const box = await page.locator('.canvas').boundingBox();
      if (box) await page.mouse.move(box.x + box.width * 0.4, box.y + 150);
      await page.locator('.chart-tip').waitFor();
    },
  },
  {
    name: 'conversation',
    path: `/conversations/${conversation}`,
    scene: scenes.busy,
    act: (page) => page.locator('canvas').first().waitFor(),
  },
  {
    name: 'conversation-narrow',
    path: `/conversations/${conversation}`,
    scene: scenes.busy,
    size: narrow,
  },
  {
    name: 'requests-open',
    path: '/requests?route=spilled',
    scene: scenes.busy,
    act: (page) => page.locator('tbody button').first().click(),
  },
];

if (noBrowser) process.exit(0);
await mkdir(folder, { recursive: true });
const wanted = process.argv.slice(2);
const browser = await launch();
for (const shot of shots) {
  if (wanted.length > 0 && !wanted.some((name) => shot.name.startsWith(name))) continue;
  const warden = await new MockWarden(shot.scene()).start();
  warden.failing = shot.failing ?? null;
  const { page, context } = await open(browser, warden.url, {
    viewport: shot.size ?? wide,
    colorScheme: shot.dark ? 'dark' : 'light',
  });
  await page.goto(shot.path);
  await page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
  await shot.act?.(page, warden);
  if (shot.path.startsWith('/stats') && !shot.path.includes('table')) {
    await page.locator('canvas, .empty').first().waitFor();
  }
  await page.screenshot({ path: `${folder}${shot.name}.png`, fullPage: true });
  await context.close();
  await warden.stop();
}
await browser.close();
console.log(`The pictures are in ${folder}`);
