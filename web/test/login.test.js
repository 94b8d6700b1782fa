// Pages that are shut: what they show, how they open, and that they close again.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { after, before, describe, it } from 'node:test';
import { launch, noBrowser, open, serverIsDown, visit } from './support/browser.js';
import * as scenes from './support/scenes.js';
import { noWarden, Warden } from './support/warden.js';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const shut = { required: true, name: null, role: null };

/** @type {import('playwright-core').Browser} */
let browser;
before(async () => {
  if (!noBrowser) browser = await launch();
});
after(() => browser?.close());

/** @param {import('playwright-core').Page} page @param {string} key */
async function logIn(page, key) {
  await page.getByLabel('Admin key').fill(key);
  await page.getByRole('button', { name: 'Log in' }).click();
}

describe('shut pages', { skip: noBrowser ?? false, timeout: 120_000 }, () => {
  for (const colorScheme of /** @type {const} */ (['light', 'dark'])) {
    for (const width of [1440, 375]) {
      const options = { viewport: { width, height: 800 }, colorScheme, allow: serverIsDown };
      it(`ask for a key and nothing else of the API, ${colorScheme}, ${width} px`, () =>
        visit(
          browser,
          scenes.busy(),
          async ({ page, warden }) => {
            warden.session = shut;
            await page.goto('/requests');
            await logIn(page, 'lmw_wrong');
            await page.getByRole('alert').getByText('not known').waitFor();
            assert.deepEqual(
              new Set(warden.calls),
              new Set(['GET /api/v1/session', 'POST /api/v1/login']),
            );
            await page.evaluate(axe);
            const { violations } = await page.evaluate('axe.run()');
            assert.deepEqual(violations, []);
            const overflow = await page.evaluate(
              () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
            );
            assert.equal(overflow, 0);

            await logIn(page, warden.key);
            await page.getByRole('heading', { name: 'Requests' }).waitFor();
            await page.locator('tbody tr').first().waitFor();
          },
          options,
        ));
    }
  }

  it('shut again when the session ends, and open where they were', () =>
    visit(
      browser,
      scenes.busy(),
      async ({ page, warden }) => {
        warden.session = { required: true, name: 'boss', role: 'admin' };
        await page.goto('/keys');
        await page.getByText('team-01').waitFor();
        await page.getByRole('button', { name: 'Log out' }).click();
        await page.getByLabel('Admin key').waitFor();
        await logIn(page, warden.key);
        await page.getByText('team-01').waitFor();
        // The key is revoked meanwhile.
        warden.session = shut;
        await page.getByLabel('Admin key').waitFor();
      },
      { allow: serverIsDown },
    ));
});

describe(
  'lm-warden serve with keys',
  { skip: noBrowser ?? noWarden ?? false, timeout: 120_000 },
  () => {
    const warden = new Warden({ requiresKeys: true });
    let admin = '';
    let client = '';
    before(async () => {
      await warden.prepare();
      admin = warden.key('add', '--admin', '--name', 'boss');
      client = warden.key('add', '--name', 'dev');
      await warden.start();
    });
    after(() => warden.remove());

    it('opens the pages to an admin alone, and every page works in the session', async () => {
      const { page, context, faults } = await open(browser, warden.url);
      await page.goto('/models/demo');
      await logIn(page, client);
      await page.getByRole('alert').getByText("admin's key").waitFor();
      await logIn(page, admin);
      await page.getByText('Live', { exact: true }).waitFor();

      const reply = await fetch(`${warden.url}/v1/messages`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': client },
        body: JSON.stringify({
          model: 'demo',
          max_tokens: 8,
          messages: [{ role: 'user', content: 'Hello.' }],
        }),
      });
      assert.equal(reply.status, 200);
      await page.goto('/keys');
      const row = page.getByRole('row', { name: /^dev client/ });
      await row.getByText('1', { exact: true }).waitFor();

      const cookies = await context.cookies(`${warden.url}/api/v1`);
      assert.equal(cookies.length, 1);
      assert.equal(cookies[0]?.httpOnly, true);
      assert.equal(cookies[0]?.sameSite, 'Strict');
      assert.deepEqual(await context.cookies(`${warden.url}/v1/messages`), []);
      assert.equal(await page.evaluate('document.cookie'), '');

      // What a page changes in a session, it may: the request is its own.
      await page.goto('/models/demo');
      await page.getByRole('switch', { name: 'Affinity' }).click();
      await page.getByRole('button', { name: 'Turn affinity off' }).click();
      await page.locator('.badges').getByText('Affinity off').waitFor();

      warden.key('revoke', 'boss');
      await page.getByLabel('Admin key').waitFor({ timeout: 20_000 });
      await context.close();
      assert.deepEqual(
        faults.filter((fault) => !serverIsDown.test(fault)),
        [],
      );
    });
  },
);
