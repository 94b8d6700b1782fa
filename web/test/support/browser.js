// Debian's chromium, driven by playwright-core, and what every page of it must keep to: no error on
// the console, no violation of the content security policy, no request to another host.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { MockWarden } from './mock.js';

const executable = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Why no browser test can run here; `null` where they can. */
export const noBrowser = existsSync(executable)
  ? null
  : `SKIPPED: no chromium at ${executable} (set CHROMIUM)`;
if (noBrowser) console.error(noBrowser);

export function launch() {
  return chromium.launch({
    executablePath: executable,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
  });
}

/**
 * A fresh tab with what it did wrong so far.
 * @param {import('playwright-core').Browser} browser
 * @param {string} origin
 * @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function open(browser, origin, options = {}) {
  const context = await browser.newContext({ baseURL: origin, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  /** @type {string[]} */
  const faults = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') faults.push(message.text());
  });
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin) faults.push(`a request to ${url.origin}`);
  });
  return { page, context, faults };
}

/** What the browser itself says on the console when a server is down; the pages cannot help it. */
export const serverIsDown = /net::ERR_|Failed to load resource/;

/**
 * One test's worth of browsing: a mock warden in the given scene, a fresh tab on it, and both gone
 * afterwards whatever happened. Fails where the page did something that no page may do.
 * @param {import('playwright-core').Browser} browser
 * @param {import('./scenes.js').Scene} scene
 * @param {(tab: { page: import('playwright-core').Page, warden: MockWarden }) => Promise<void>} check
 * @param {import('playwright-core').BrowserContextOptions & { allow?: RegExp }} [options]
 */
export async function visit(browser, scene, check, { allow, ...options } = {}) {
  const warden = await new MockWarden(scene).start();
  const { page, context, faults } = await open(browser, warden.url, options);
  try {
    await check({ page, warden });
  } finally {
    await context.close();
    await warden.stop();
  }
  assert.deepEqual(
    faults.filter((fault) => !allow?.test(fault)),
    [],
  );
}
