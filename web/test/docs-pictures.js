// The pictures in docs/pages.md: a real `lm-warden serve` with four simulated replicas, kept busy for
// some minutes (`node test/docs-pictures.js [MINUTES]`), in a window of modest size.

import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { launch, noBrowser, open } from './support/browser.js';
import { Load } from './support/load.js';
import { noWarden, Warden } from './support/warden.js';

const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url));
const minutes = Number(process.argv[2] ?? 12);
const shown = 'shown';

/**
 * A conversation that rewrites the beginning of its prompt now and then, as some clients do.
 * @param {Warden} warden @param {() => boolean} goesOn
 */
async function rewrite(warden, goesOn) {
  /** @type {{ role: string, content: unknown }[]} */
  const messages = [{ role: 'user', content: `Look around. ${'Read this. '.repeat(900)}` }];
  for (let turn = 0; goesOn(); turn++) {
    const system = [
      { type: 'text', text: 'You are a coding agent. '.repeat(120) },
      { type: 'text', text: `Session notes, version ${Math.floor(turn / 6)}.` },
    ];
    const body = { model: 'demo', max_tokens: 160, system, messages };
    const content = await warden.ask(shown, body);
    messages.push({ role: 'assistant', content });
    messages.push({ role: 'user', content: `Go on. ${'And read that. '.repeat(40)}` });
    await sleep(9_000);
  }
}

if (noBrowser || noWarden) process.exit(0);
const warden = await new Warden({ speed: 1 }).start();
const browser = await launch();
let busy = true;
const talk = rewrite(warden, () => busy);
// Of different lengths and paces, and arriving one after the other, as people do.
const loads = [];
for (let i = 0; i < 9; i++) {
  const options = { name: `session-${i}`, think_ms: 1_500 + 900 * i, words: 1_500 + 700 * i };
  loads.push(new Load(warden, 2, { ...options, max_tokens: 120 }));
  await sleep((minutes * 60_000) / 18);
}
await sleep((minutes * 60_000) / 2);

const { conversations } = await warden.get('/conversations?sort=turns&order=desc&limit=1000');
/** The one that rewrites, found by its second system block's changes. */
let conversation = conversations[0].id;
for (const { id } of conversations) {
  const { requests } = await warden.get(`/requests?session=${id}&limit=200`);
  const rewritten = requests.some((/** @type {any} */ one) => one.cold?.why === 'prefix_changed');
  if (rewritten) conversation = id;
}
/** @type {[string, string][]} */
const places = [
  ['models-busy', '/'],
  ['model-busy', '/models/demo'],
  ['stats', '/stats?range=15m'],
  ['conversation', `/conversations/${conversation}`],
  ['requests', '/requests'],
];
const { page } = await open(browser, warden.url, { viewport: { width: 1280, height: 820 } });
for (const [name, path] of places) {
  await page.goto(path);
  await page.locator('[aria-busy=true]').waitFor({ state: 'detached' });
  if (name === 'stats' || name === 'conversation') await page.locator('canvas').first().waitFor();
  await sleep(500); // what a chart draws over time
  await page.screenshot({ path: `${folder}page-${name}.png` });
}
busy = false;
await Promise.all([talk, ...loads.map((load) => load.stop())]);
await browser.close();
await warden.remove();
console.log(`The pictures are in ${folder}`);
