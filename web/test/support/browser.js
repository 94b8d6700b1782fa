// Debian's chromium, driven by playwright-core, and what every page of it must keep to: no error on
// the console, no violation of the content security policy, no request to another host.

import { existsSync } from 'node:fs';
import { chromium } from 'playwright-core';

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
