// What every page keeps to for whoever cannot see it well, or has a small screen.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** No rule of axe's is violated. @param {import('playwright-core').Page} page @param {string} where */
export async function assertAccessible(page, where) {
  // Through the debugger, which the content security policy does not bind.
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    // @ts-expect-error axe puts itself on the window
    const { violations } = await window.axe.run();
    return violations.map((/** @type {any} */ one) => ({
      id: one.id,
      nodes: one.nodes.map(
        (/** @type {any} */ node) => `${node.html.slice(0, 160)}: ${node.failureSummary}`,
      ),
    }));
  });
  assert.deepEqual(violations, [], where);
}

/** Nothing has to be scrolled for sideways. @param {import('playwright-core').Page} page @param {string} where */
export async function assertFits(page, where) {
  const overflow = await page.evaluate(
    () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
  );
  assert.equal(overflow, 0, `${where} scrolls sideways`);
}
