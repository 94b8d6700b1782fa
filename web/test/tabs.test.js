// Many tabs of one browser: a browser has six connections to a server, and none of them may be left
// without one.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { launch, noBrowser, open, serverIsDown } from './support/browser.js';
import { eventually } from './support/eventually.js';
import { MockWarden } from './support/mock.js';
import * as scenes from './support/scenes.js';

const path = '/models/qwen3-4b-dp4';
/** More than a browser has connections to one server. */
const tabs = 8;

describe('tabs', { skip: noBrowser ?? false, timeout: 120_000 }, () => {
  /** @type {import('playwright-core').Browser} */
  let browser;
  before(async () => {
    browser = await launch();
  });
  after(() => browser.close());

  /** @typedef {import('playwright-core').Page} Page */

  /** @param {(pages: Page[], warden: MockWarden) => Promise<void>} check @param {string} [script] */
  async function inMany(check, script) {
    const warden = await new MockWarden(scenes.busy()).start();
    const { context, page, faults } = await open(browser, warden.url);
    if (script) await context.addInitScript(script);
    const pages = [page];
    while (pages.length < tabs) pages.push(await context.newPage());
    try {
      await check(pages, warden);
      assert.deepEqual(
        faults.filter((fault) => !serverIsDown.test(fault)),
        [],
      );
    } finally {
      await context.close();
      await warden.stop();
    }
  }

  /** @param {Page[]} pages */
  async function openAll(pages) {
    for (const page of pages) {
      page.setDefaultTimeout(10_000);
      await page.goto(path);
      await page.getByText('In flight 23').waitFor();
      await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
    }
  }

  /** @param {MockWarden} warden @param {number} in_flight */
  const set = (warden, in_flight) =>
    warden.change((scene) => {
      const routing = scene.models[0]?.routing;
      if (routing) routing.in_flight = in_flight;
    });

  /** @param {Page[]} pages @param {number} in_flight */
  const allShow = (pages, in_flight) =>
    Promise.all(pages.map((page) => page.getByText(`In flight ${in_flight}`).waitFor()));

  it('share one stream, and the next in line takes over from one that is closed', () =>
    inMany(async (pages, warden) => {
      await openAll(pages);
      await eventually(async () => assert.equal(warden.streams, 1));
      set(warden, 31);
      await allShow(pages, 31);

      await pages.shift()?.close();
      await eventually(async () => assert.equal(warden.streams, 1));
      set(warden, 32);
      await allShow(pages, 32);
      for (const page of pages) {
        await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
      }
    }));

  it('hear of a change by the shared stream, not only from time to time', () =>
    inMany(async ([leader, follower], warden) => {
      assert.ok(leader && follower);
      await openAll([leader]);
      await follower.clock.install();
      await openAll([follower]);
      await follower.clock.pauseAt(Date.now() + 1_000);
      // Right after a reading of its own: the next is two seconds of standing time away.
      await follower.clock.runFor(2_100);
      const heard = follower.evaluate(
        () =>
          new Promise((resolve) => {
            const channel = new BroadcastChannel('lm-warden-events');
            channel.onmessage = ({ data }) => data.kind === 'changed' && resolve(true);
          }),
      );
      await follower.evaluate(() => undefined);
      set(warden, 33);
      await heard;
      await follower.clock.runFor(1_000);
      await follower.getByText('In flight 33').waitFor();
    }));

  it('pause each for itself', () =>
    inMany(async ([leader, follower], warden) => {
      assert.ok(leader && follower);
      await openAll([leader, follower]);
      await leader.keyboard.press('p');
      await leader.getByRole('button', { name: 'Paused' }).waitFor();
      await eventually(async () => assert.equal(warden.streams, 1));
      set(warden, 34);
      await allShow([follower], 34);
      await leader.getByText('In flight 23').waitFor();
      await follower.keyboard.press('p');
      await eventually(async () => assert.equal(warden.streams, 0));
      await leader.keyboard.press('p');
      await allShow([leader], 34);
    }));

  it('lose the warden together and find it together', () =>
    inMany(async (pages, warden) => {
      const some = pages.slice(0, 3);
      await openAll(some);
      await warden.stop();
      for (const page of some) await page.getByRole('button', { name: /Retry|Reconn/ }).waitFor();
      set(warden, 35);
      await warden.start();
      await allShow(some, 35);
      for (const page of some) {
        await page.getByRole('button', { name: 'Live', exact: true }).waitFor();
      }
      assert.equal(warden.streams, 1);
    }));

  it('have a stream each where the browser gives no locks', () =>
    inMany(async (pages, warden) => {
      const some = pages.slice(0, 3);
      await openAll(some);
      assert.equal(warden.streams, 3);
      set(warden, 36);
      await allShow(some, 36);
    }, 'delete Navigator.prototype.locks'));
});
