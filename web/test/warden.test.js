// The pages in the binary, against the real service under load.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { noBrowser, serverIsDown } from './support/browser.js';
import { eventually } from './support/eventually.js';
import { assertPanelShows } from './support/panel.js';
import { looks, openAll, places } from './support/tour.js';
import { Load } from './support/load.js';
import { noWarden } from './support/warden.js';
import { served } from './support/served.js';

describe('lm-warden serve', { skip: noBrowser ?? noWarden ?? false, timeout: 600_000 }, () => {
  const suite = served();
  const { warden } = suite;

  it('has the pages embedded, under a policy that lets them speak to it only', async () => {
    const { text, headers } = await warden.page();
    assert.match(
      text,
      /id="app"/,
      'this binary was built without the pages: make web, cargo build',
    );
    const policy = headers.get('content-security-policy') ?? '';
    assert.match(policy, /default-src '(none|self)'/);
    assert.doesNotMatch(policy, /unsafe|data:|https?:|\*/);
  });

  /**
   * All pages in one look after the other.
   * @param {string} state @param {string} [conversation]
   */
  async function lookAtAll(state, conversation) {
    for (const look of looks) {
      const tour = await openAll(suite.browser, warden.url, look, places(conversation));
      await tour.look(state);
      await tour.close();
    }
  }

  it('looks right before anybody has asked for anything', () => lookAtAll('empty'));

  it('shows what the API gives, and follows it under load without a reload', async () => {
    const { page } = suite.tab;
    await page.goto('/models/demo');
    await page.getByText('Ready', { exact: true }).waitFor();
    await page.evaluate(() => Object.assign(window, { notReloaded: true }));

    const load = new Load(warden, 6);
    const inFlight = page.locator('.badges').getByText(/In flight [1-9]/);
    await inFlight.waitFor();
    await page.getByText(/Sticky \d+\.\d %/).waitFor();
    // While the first requests of all still run: rates need no full minute, and no ended request.
    const now = page.getByLabel('Now and lately');
    for (const rate of ['Computed now', 'Completion now']) {
      const figure = now.locator('div').filter({ hasText: rate }).locator('dd');
      await eventually(async () => assert.match(await figure.innerText(), /[1-9]/));
    }
    await eventually(async () => assert.ok(load.turns > 20));
    await load.stop();

    await eventually(async () => assertPanelShows(page, await warden.get('/models/demo')));
    const { routing } = await warden.get('/models/demo');
    const sticky = routing.replicas.reduce(
      (/** @type {number} */ sum, /** @type {{ sticky: number }} */ replica) =>
        sum + replica.sticky,
      0,
    );
    assert.ok(sticky >= 10, `only ${sticky} requests were sticky`);
    assert.equal(await page.evaluate(() => 'notReloaded' in window), true);
  });

  it('says why, with the reason of the API', async () => {
    const { page } = suite.tab;
    const { requests } = await warden.get('/requests?limit=20&model=demo');
    const reason = requests[0].reason;
    assert.ok(reason);
    await page.getByRole('button', { name: reason }).first().click();
    await page.getByRole('table', { name: 'Replicas at the moment' }).waitFor();
    await page.getByRole('button', { name: reason }).first().click();
  });

  it('prints the same lines for Claude Code as the command does', async () => {
    const shown = await suite.tab.page.locator('#connect pre').innerText();
    /** @param {string} text */
    const lines = (text) => {
      const words = [...text.matchAll(/^export ([A-Z_]+)=(.*)$/gm)];
      return words.map(([, name, value]) => `${name}=${value?.replaceAll("'", '')}`).sort();
    };
    const printed = warden.run('claude', 'demo', '--url', warden.url);
    assert.deepEqual(lines(shown), lines(printed));
  });

  it('shows stats, conversations and requests', async () => {
    const { page } = suite.tab;
    await page.goto('/stats');
    await page.locator('canvas').first().waitFor();
    await page.goto('/requests');
    await page.locator('tbody tr').first().waitFor();
    await page.goto('/conversations');
    const { conversations } = await warden.get('/conversations?limit=1000');
    assert.equal(conversations.length, 6);
    await page.getByText('6 rows').waitFor();
    await page.locator('tbody a').first().click();
    await page.getByRole('heading', { name: 'Turns' }).waitFor();
  });

  it('looks right under load', async () => {
    const load = new Load(warden, 4, { name: 'looked-at', think_ms: 1_000 });
    await eventually(async () => assert.ok(load.turns > 4));
    const { conversations } = await warden.get('/conversations?limit=1');
    await lookAtAll('busy', conversations[0].id);
    await load.stop();
  });

  it('drains a replica by hand', async () => {
    const { page } = suite.tab;
    await page.goto('/models/demo');
    await page.getByRole('button', { name: 'Replica 3 Up' }).click();
    await page.getByRole('button', { name: 'Drain it' }).click();
    const draining = page.getByRole('button', { name: 'Replica 3 Draining' });
    await draining.waitFor();
    assert.equal((await warden.get('/models/demo')).routing.replicas[3].state, 'draining');
    await draining.click();
    await page.getByRole('button', { name: 'End the drain' }).click();
    await page.getByRole('button', { name: /Replica 3 (Up|Ramping)/ }).waitFor();
  });

  it('switches affinity, for the next request and over a restart', async () => {
    const { page } = suite.tab;
    await page.goto('/models/demo');
    await page.getByRole('switch', { name: 'Affinity' }).click();
    await page.getByRole('button', { name: 'Turn affinity off' }).click();
    await page.locator('.badges').getByText('Affinity off').waitFor();
    assert.equal((await warden.get('/models/demo')).routing.affinity, false);
    const load = new Load(warden, 2);
    await eventually(async () => assert.ok(load.turns > 1));
    await load.stop();
    const { requests } = await warden.get('/requests?limit=1');
    assert.equal(requests[0].route, 'balanced');

    await warden.stop();
    await page.getByRole('alert').first().waitFor();
    await warden.start();
    await page.getByRole('button', { name: 'Live', exact: true }).waitFor({ timeout: 30_000 });
    await eventually(async () => assert.equal(await page.getByRole('alert').count(), 0));
    await page.locator('.badges').getByText('Affinity off').waitFor();
    await eventually(async () => assertPanelShows(page, await warden.get('/models/demo')));
  });

  it('looks right while the warden is away, and says so on every page', async () => {
    const { conversations } = await warden.get('/conversations?limit=1');
    const paths = places(conversations[0].id);
    const tours = [];
    for (const look of looks.filter((look) => look.examined)) {
      tours.push(await openAll(suite.browser, warden.url, look, paths));
    }
    await warden.stop();
    for (const tour of tours) {
      for (const page of tour.pages()) {
        await page.getByRole('alert').first().waitFor({ timeout: 30_000 });
      }
      await tour.look('away');
      await tour.close();
    }
    await warden.start();
  });

  it('had nothing to complain about on the console', () => {
    assert.deepEqual(
      suite.tab.faults.filter((fault) => !serverIsDown.test(fault)),
      [],
    );
  });
});
