// Requests, conversations and stats against a mock warden.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, describe, it } from 'node:test';
import { launch, noBrowser, visit } from './support/browser.js';
import * as scenes from './support/scenes.js';

describe('lists and stats', { skip: noBrowser ?? false, timeout: 120_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  /**
   * @param {() => scenes.Scene} scene
   * @param {(page: import('playwright-core').Page, warden: import('./support/mock.js').MockWarden) => Promise<void>} check
   * @param {{ allow?: RegExp }} [options]
   */
  const on = (scene, check, options) =>
    visit(browser, scene(), ({ page, warden }) => check(page, warden), options);

  it('filters, orders and pages requests, and keeps that in the URL', () =>
    on(scenes.busy, async (page, warden) => {
      await page.goto('/requests');
      await page.getByText('400 rows').waitFor();
      assert.equal(await page.locator('tbody tr').count(), 50);

      await page.getByRole('combobox', { name: 'Route' }).selectOption('spilled');
      const spilled = warden.scene.requests.filter((request) => request.route === 'spilled');
      await page.getByText(`${spilled.length} rows`).waitFor();

      await page.getByRole('button', { name: 'Prompt' }).click();
      const column = page.locator('tbody tr td:nth-child(10)');
      const prompts = spilled.map((request) => request.prompt_tokens ?? 0);
      const largest = prompts.toSorted((a, b) => b - a).map((n) => n.toLocaleString('en'));
      assert.deepEqual(await column.allTextContents(), largest);
      assert.equal(new URL(page.url()).search, '?route=spilled&sort=-prompt');

      await page.reload();
      await page.getByText(`${spilled.length} rows`).waitFor();
      assert.deepEqual(await column.allTextContents(), largest);

      await page.goto('/requests?page=8');
      await page.getByText('Page 8 of 8').waitFor();
      await page.keyboard.press('/');
      await page.keyboard.type('client_gone');
      await page.getByText('1 row', { exact: true }).waitFor();
    }));

  it('keeps the list still while a request is open', () =>
    on(scenes.busy, async (page, warden) => {
      await page.goto('/requests');
      await page.locator('tbody button').first().click();
      const first = warden.scene.requests[0];
      await page.getByText(first?.id ?? 'none').waitFor();
      const calls = warden.calls.length;
      warden.change((scene) => {
        scene.requests = scenes.requests(99, 5, 'qwen3-4b-dp4');
      });
      while (warden.calls.length === calls) await page.waitForTimeout(50);
      assert.ok(await page.getByText(first?.id ?? 'none').isVisible());
      await page.locator('tbody button').first().click();
      await page.getByText('5 rows').waitFor();
    }));

  it('draws one page at a time of ten thousand conversations', () =>
    on(scenes.much, async (page) => {
      await page.goto('/conversations');
      await page.getByText('10,000 rows').waitFor();
      await page.getByRole('button', { name: 'Context' }).click();
      await page
        .getByRole('columnheader', { name: 'Context' })
        .and(page.locator('[aria-sort=descending]'))
        .waitFor();
      await page.getByRole('button', { name: 'Next' }).click();
      await page.getByText('Page 2 of 200').waitFor();
      // What keeps it smooth: however long the list is, one page of it is drawn.
      assert.equal(await page.locator('tbody tr').count(), 50);
    }));

  it('moves and forgets a conversation by hand', () =>
    on(scenes.busy, async (page, warden) => {
      const id = warden.scene.conversations[2]?.id;
      await page.goto(`/conversations/${id}`);
      await page.getByRole('button', { name: 'Move…' }).click();
      await page.getByRole('combobox', { name: 'New home' }).selectOption({ index: 1 });
      const chosen = Number(await page.getByRole('combobox', { name: 'New home' }).inputValue());
      await page.getByRole('button', { name: 'Move it' }).click();
      await page.getByText(`replica ${chosen}`, { exact: true }).waitFor();
      await page.getByRole('button', { name: 'Forget…' }).click();
      await page.getByRole('button', { name: 'Forget it' }).click();
      await page.getByRole('heading', { name: 'Conversations' }).waitFor();
      const path = `/api/v1/conversations/${id}`;
      assert.deepEqual(warden.changes, [
        { path: `${path}/move`, body: { replica: chosen } },
        { path, body: undefined },
      ]);
    }));

  it('says of a newcomer that waits that it has no home yet', () =>
    on(
      scenes.busy,
      async (page, warden) => {
        const { requests } = warden.scene;
        const waiting = requests.find((one) => one.conversation && one.end == null);
        assert.ok(waiting);
        Object.assign(waiting, { conversation: '00000000000000aa', route: null, replica: null });
        await page.goto('/conversations/00000000000000aa');
        await page.getByText('It waits for its first place').waitFor();
        assert.equal(await page.getByText('It has no home any more').count(), 0);
      },
      // The browser itself reports the answer 404.
      { allow: /status of 404/ },
    ));

  it('shows the turns of a conversation that has no home any more', () =>
    on(
      scenes.busy,
      async (page, warden) => {
        const { conversations, requests } = warden.scene;
        const known = new Set(conversations.map((one) => one.id));
        const id = requests.find(
          (one) => one.conversation && known.has(one.conversation),
        )?.conversation;
        warden.scene.conversations = conversations.filter((one) => one.id !== id);
        await page.goto(`/conversations/${id}`);
        await page.getByText('It has no home any more').waitFor();
        await page.getByText('comes from the history').waitFor();
        await page.getByRole('heading', { name: 'Turns', exact: true }).waitFor();
        assert.equal(await page.getByRole('alert').count(), 0);
        assert.equal(await page.getByRole('button', { name: 'Forget…' }).count(), 0);

        await page.goto('/conversations/0123456789abcdef');
        await page.getByText('Nor does the history know of any turn').waitFor();
      },
      // The browser itself reports the answer 404.
      { allow: /status of 404/ },
    ));

  it('says what is wrong with the history, and that requests are served all the same', () =>
    on(scenes.busy, async (page, warden) => {
      warden.history = {
        writable: false,
        failing_since: warden.started,
        failure: '/var/lib/lm-warden/history.sqlite: disk is full; make room on the disk',
        waiting: 312,
        dropped: 7,
        dropped_since: warden.started,
        set_aside: 'history.damaged-1764470000.sqlite',
        set_aside_at: warden.started,
        set_aside_files: 1,
      };
      for (const place of ['/stats', '/requests']) {
        await page.goto(place);
        await page.getByText('make room on the disk').waitFor();
        await page.getByText('312 wait in memory to be written').waitFor();
        await page.getByText('7 lost').waitFor();
        await page.getByText('history.damaged-1764470000.sqlite').waitFor();
      }
    }));

  it('has a range of a week, ticks with their words, and figures by route', () =>
    on(scenes.busy, async (page, warden) => {
      await page.goto('/stats?range=7d');
      await page.locator('canvas').first().waitFor();
      assert.ok(warden.calls.some((call) => call.includes('/stats?range=7d&step=1h')));
      await page.getByRole('heading', { name: 'Starts and changes' }).waitFor();
      await page.getByText('lm-warden 0.1.0 started').waitFor();
      const row = page.getByRole('row', { name: /^sticky/ });
      assert.match(await row.innerText(), /\d+ ms/);
    }));

  it('draws the stats that the API gives, and gives them as table and CSV', () =>
    on(scenes.busy, async (page, warden) => {
      await page.goto('/stats');
      await page.locator('canvas').first().waitFor();
      await page.getByText('86.4 %').waitFor();
      await page.getByRole('button', { name: '15 min' }).click();
      await page.waitForURL('**/stats?range=15m');
      while (!warden.calls.some((call) => call.includes('/stats?range=15m&step=10s'))) {
        await page.waitForTimeout(20);
      }
      await page.getByRole('button', { name: 'As table' }).click();
      await page.getByRole('heading', { name: 'Figures per 10 s' }).waitFor();
      const rows = page.getByRole('region', { name: 'Figures over time' }).locator('tbody tr');
      assert.equal(await rows.count(), 90);
      const gaps = await rows.filter({ hasText: '––––' }).count();
      assert.ok(gaps > 5, 'a gap is a dash');

      const download = page.waitForEvent('download');
      await page.getByRole('button', { name: 'CSV' }).click();
      const csv = await readFile(await (await download).path(), 'utf8');
      assert.equal(csv.trim().split('\n').length, 91);
    }));

  it('leads from a bar to its requests', () =>
    on(scenes.busy, async (page) => {
      await page.goto('/stats');
      await page.locator('canvas').first().waitFor();
      const box = await page.locator('.canvas').boundingBox();
      assert.ok(box);
      await page.mouse.move(box.x + box.width - 30, box.y + 150);
      await page.locator('.chart-tip').getByText('tokens/s').first().waitFor();
      await page.mouse.click(box.x + box.width - 30, box.y + 150);
      await page.waitForURL('**/requests?from=*');
      const query = new URL(page.url()).searchParams;
      assert.equal(Number(query.get('to')) - Number(query.get('from')), 60);
      await page.getByRole('button', { name: 'Remove the time filter' }).waitFor();
    }));

  it('reaches every page by keys', () =>
    on(scenes.busy, async (page) => {
      await page.goto('/models/qwen3-4b-dp4');
      await page.getByRole('heading', { name: 'Connect Claude Code' }).waitFor();
      await page.keyboard.press('c');
      const focused = page.locator('#connect :focus');
      assert.equal(await focused.textContent(), 'Environment');
      for (const [key, heading] of [
        ['c', 'Conversations'],
        ['s', 'Stats'],
        ['r', 'Requests'],
        ['m', 'Models'],
      ]) {
        await page.keyboard.press('g');
        await page.keyboard.press(key ?? '');
        await page.getByRole('heading', { name: heading, exact: true }).waitFor();
      }
    }));
});
