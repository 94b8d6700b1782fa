// A suite's warden, browser and tab: there before its first test, gone after its last.

import { after, before } from 'node:test';
import { launch, open } from './browser.js';
import { Warden } from './warden.js';

/**
 * To be called within `describe`. The browser and the tab are there once the tests run.
 * @param {import('playwright-core').BrowserContextOptions} [look]
 */
export function served(look) {
  const suite = {
    warden: new Warden(),
    browser: /** @type {import('playwright-core').Browser} */ (/** @type {unknown} */ (null)),
    tab: /** @type {Awaited<ReturnType<typeof open>>} */ (/** @type {unknown} */ (null)),
  };
  before(async () => {
    suite.browser = await launch();
    await suite.warden.start();
    suite.tab = await open(suite.browser, suite.warden.url, look);
  });
  after(async () => {
    await suite.browser?.close();
    await suite.warden.remove();
  });
  return suite;
}
