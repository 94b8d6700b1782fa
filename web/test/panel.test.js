// The model's page against a mock warden: it shows what the API says, stays current, changes what
// an operator changes, and survives a restart of the warden.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { launch, noBrowser, serverIsDown, visit } from './support/browser.js';
import { eventually } from './support/eventually.js';
import * as scenes from './support/scenes.js';
import { assertPanelShows } from './support/panel.js';

const path = '/models/qwen3-4b-dp4';

describe('model page', { skip: noBrowser ?? false, timeout: 120_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  /**
   * @param {() => scenes.Scene} scene
   * @param {Parameters<typeof visit>[2]} check
   * @param {Parameters<typeof visit>[3]} [options]
   */
  const on = (scene, check, options) => visit(browser, scene(), check, options);

  it('shows every figure of the panel as the API gives it', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      const [model] = warden.scene.models;
      assert.ok(model);
      await assertPanelShows(page, model);
      assert.equal(await page.getByText('Ready', { exact: true }).count(), 1);
    }));

  it('shows a dash for what is unknown, never a zero', () =>
    on(scenes.loading, async ({ page, warden }) => {
      await page.goto('/models/demo');
      const [model] = warden.scene.models;
      assert.ok(model);
      await assertPanelShows(page, model);
      await page.getByText('Sticky –').waitFor();
    }));

  it('greys a row whose figures are old, and says how old', () =>
    on(scenes.degraded, async ({ page }) => {
      await page.goto(path);
      await page.getByRole('row').getByText('figures 1 min 14 s old').waitFor();
      const rows = page.getByRole('row').filter({ has: page.getByRole('rowheader') });
      const old = await rows.evaluateAll((all) => all.map((row) => row.classList.contains('old')));
      assert.deepEqual(old.slice(0, 4), [false, false, true, true]);
    }));

  it('says why nothing waits', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      await page.getByText('3.1 % was gone lately').waitFor();
      for (const [state, words] of /** @type {const} */ ([
        ['off', 'Leases are off: where contexts outgrow'],
        ['affinity_off', 'Leases need affinity'],
        ['kv_tokens_unknown', 'how many tokens its KV cache holds'],
        ['usage_unknown', '--enable-prompt-tokens-details'],
      ])) {
        warden.change((scene) => {
          const routing = scene.models[0]?.routing;
          if (routing) routing.leases = { ...routing.leases, state };
        });
        await page.getByText(words).waitFor();
      }
    }));

  it('says who holds a place and who waits, since when and how long still', () =>
    on(scenes.degraded, async ({ page, warden }) => {
      await page.goto(path);
      const section = page.getByRole('region', { name: 'The machine is full' });
      await section.getByText('12 conversations hold a place and 60 requests wait').waitFor();
      await section.getByText('A place lasts for about 3 turns (auto) while others wait').waitFor();
      const waits = section.getByRole('table', { name: 'Who waits (60), next one first' });
      await waits.getByText('and 10 more').waitFor();
      const rows = waits.getByRole('row');
      assert.equal(await rows.count(), 1 + 50 + 1);
      assert.match(await rows.nth(1).innerText(), /[0-9a-f]{8}\s+4\d s\s+about 11 s/u);
      assert.match(await rows.nth(3).innerText(), /none named/u);
      const holders = section.getByRole('table', { name: 'Who holds a place (12)' });
      assert.equal(await holders.getByRole('row').count(), 13);
      await holders.getByText('runs').first().waitFor();
      await holders
        .getByText(/^kept 1 min/u)
        .first()
        .waitFor();
      await section.getByText('believed at 90.0 %').waitFor();
      warden.change((scene) => {
        const leases = scene.models[0]?.routing.leases;
        if (leases) Object.assign(leases, { waiting: 0, waiters: [], oldest_wait_s: null });
      });
      const emptied = page.getByRole('region', { name: 'The machine was full' });
      await emptied.getByText('Nobody waits.').waitFor();
      await emptied.getByText('This ends by itself').waitFor();
    }));

  it('follows changes without a reload', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      await page.getByText('In flight 23').waitFor();
      warden.change((scene) => {
        const routing = scene.models[0]?.routing;
        if (routing) Object.assign(routing, { in_flight: 31, sticky_percent: 97.04 });
      });
      await page.getByText('In flight 31').waitFor();
      await page.getByText('Sticky 97.0 %').waitFor();
    }));

  it('reads again when the stream says so, not only from time to time', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.clock.install();
      await page.goto(path);
      await page.getByText('In flight 23').waitFor();
      await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
      await page.clock.pauseAt(Date.now() + 1_000);
      const routing = warden.scene.models[0]?.routing;
      assert.ok(routing);
      // From here on the page's time stands still between `runFor`s: right after one of its own
      // readings, the next of those is two seconds away.
      routing.in_flight = 24;
      await page.clock.runFor(2_100);
      await page.getByText('In flight 24').waitFor();

      const heard = page.evaluate(
        () =>
          new Promise((resolve) => {
            const source = new EventSource('/api/v1/events');
            source.addEventListener('hello', () => Object.assign(window, { listening: true }));
            source.addEventListener('changed', () => {
              source.close();
              resolve(true);
            });
          }),
      );
      await eventually(async () =>
        assert.ok(await page.evaluate(() => 'listening' in window), 'the stream does not open'),
      );
      warden.change(() => {
        routing.in_flight = 31;
      });
      await heard;
      await page.clock.runFor(1_000);
      await page.getByText('In flight 31').waitFor();
    }));

  it('switches affinity off only after it was confirmed', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      const affinity = page.getByRole('switch', { name: 'Affinity' });
      await affinity.click();
      await page.getByRole('button', { name: 'Leave affinity on' }).click();
      assert.deepEqual(warden.changes, []);
      await affinity.click();
      await page.getByRole('button', { name: 'Turn affinity off' }).click();
      await page.locator('.badges').getByText('Affinity off').waitFor();
      assert.equal(await affinity.getAttribute('aria-checked'), 'false');
      assert.deepEqual(warden.changes, [
        { path: '/api/v1/models/qwen3-4b-dp4/routing', body: { affinity: false } },
      ]);
      await page.getByRole('status').filter({ hasText: 'Affinity is off.' }).waitFor();
    }));

  it('switches leases off and on, each time only after it was confirmed', () =>
    on(scenes.degraded, async ({ page, warden }) => {
      await page.goto(path);
      const leases = page.getByRole('switch', { name: 'Leases' });
      assert.equal(await leases.getAttribute('aria-checked'), 'true');
      await leases.click();
      await page.getByText('wait for a place (60 now) go at once').waitFor();
      await page.getByRole('button', { name: 'Leave leases on' }).click();
      assert.deepEqual(warden.changes, []);
      for (const [word, sent] of /** @type {const} */ ([
        ['off', ['off']],
        ['on', ['off', 'auto']],
      ])) {
        await leases.click();
        await page.getByRole('button', { name: `Turn leases ${word}` }).click();
        await page.locator('.badges').getByText(`Leases ${word}`).waitFor();
        await page
          .getByRole('status')
          .filter({ hasText: `Leases are ${word}.` })
          .waitFor();
        assert.deepEqual(
          warden.changes,
          sent.map((leases) => ({ path: `/api/v1${path}/routing`, body: { leases } })),
        );
      }
    }));

  it('sets the spill threshold, back to automatic, and shows a refusal', () =>
    on(
      scenes.busy,
      async ({ page, warden }) => {
        await page.goto(path);
        const badge = page.getByRole('button', { name: /Spill threshold/ });
        const field = page.getByRole('spinbutton', { name: 'Requests in flight' });
        const save = page.getByRole('button', { name: 'Save' });

        await badge.click();
        await field.fill('0');
        assert.ok(await save.isDisabled());
        await field.fill('999');
        await save.click();
        await page.getByText('at most 256').waitFor();
        await field.fill('12');
        await save.click();
        await page.getByText('Spill threshold 12 (set)').waitFor();

        await badge.click();
        await page.getByRole('radio', { name: /Automatic/ }).check();
        await save.click();
        await page.getByText('Spill threshold 8 (auto)').waitFor();
        const sent = warden.changes.map((change) => change.body);
        assert.deepEqual(
          sent,
          [999, 12, 'auto'].map((value) => ({ spill_threshold: value })),
        );
      },
      { allow: serverIsDown },
    ));

  it('drains a replica and ends the drain', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      await page.getByRole('button', { name: 'Replica 2 Up' }).click();
      await page.getByRole('button', { name: 'Drain it' }).click();
      await page.getByRole('button', { name: 'Replica 2 Draining' }).click();
      await page.getByRole('button', { name: 'End the drain' }).click();
      await page.getByRole('button', { name: 'Replica 2 Up' }).waitFor();
      const replica = '/api/v1/models/qwen3-4b-dp4/replicas/2';
      assert.deepEqual(
        warden.changes.map((change) => change.path),
        [`${replica}/drain`, `${replica}/undrain`],
      );
    }));

  it('says why each request went where it went, with every replica on demand', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      const spilled = warden.scene.requests.find((request) => request.route === 'spilled');
      assert.ok(spilled?.reason);
      const row = page.getByRole('button', { name: spilled.reason });
      await row.click();
      assert.equal(await row.getAttribute('aria-expanded'), 'true');
      const scores = page.getByRole('table', { name: 'Replicas at the moment of the decision' });
      const running = await scores.locator('tbody tr td:nth-child(3)').allTextContents();
      assert.deepEqual(
        running,
        spilled.scores.map((score) => String(score.running)),
      );
    }));

  it('comes back by itself after the warden was restarted', () =>
    on(
      scenes.busy,
      async ({ page, warden }) => {
        await page.goto(path);
        await page.getByText('In flight 23').waitFor();
        await warden.stop();
        await page.getByRole('alert').getByText('The warden does not answer.').waitFor();
        assert.ok(await page.getByText('In flight 23').isVisible(), 'the last figures stay');
        const [model] = warden.scene.models;
        assert.ok(model);
        model.routing.in_flight = 2;
        warden.started += 60;
        await warden.start();
        await page.getByText('In flight 2', { exact: true }).waitFor();
        await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
        await page.getByRole('status').filter({ hasText: 'restarted' }).waitFor();
        assert.equal(await page.getByRole('alert').count(), 0);
      },
      { allow: serverIsDown },
    ));

  it('reads nothing while it is paused, and everything on return', () =>
    on(scenes.busy, async ({ page, warden }) => {
      await page.goto(path);
      await page.getByText('In flight 23').waitFor();
      await page.keyboard.press('p');
      await page.getByRole('button', { name: 'Paused' }).waitFor();
      const before = warden.calls.length;
      warden.change((scene) => {
        const routing = scene.models[0]?.routing;
        if (routing) routing.in_flight = 40;
      });
      // Longer than the page's own interval: a page that still read would be caught.
      await page.waitForTimeout(2_500);
      assert.equal(warden.calls.length, before);
      await page.keyboard.press('p');
      await page.getByText('In flight 40').waitFor();
    }));

  it('copies what connects Claude Code', () =>
    on(
      scenes.idle,
      async ({ page, warden }) => {
        await page.goto('/models/demo');
        await page.getByRole('button', { name: 'Copy environment' }).click();
        const shell = await page.evaluate(() => navigator.clipboard.readText());
        assert.match(shell, new RegExp(`^export ANTHROPIC_BASE_URL=${warden.url}$`, 'm'));
        assert.match(shell, /^export ANTHROPIC_MODEL=demo$/m);
        await page.getByRole('tab', { name: 'settings.json' }).click();
        await page.getByRole('button', { name: 'Copy settings' }).click();
        const settings = await page.evaluate(() => navigator.clipboard.readText());
        assert.equal(JSON.parse(settings).env.ANTHROPIC_MODEL, 'demo');
      },
      { permissions: ['clipboard-read', 'clipboard-write'] },
    ));
});
