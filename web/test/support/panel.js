// What the panel has to say for one answer of the API; used against the mock and the real warden.

import assert from 'node:assert/strict';

/** @typedef {import('./scenes.js').Model} Model */

const dash = '–';

/** @param {number | null | undefined} value */
const count = (value) => (value == null ? dash : value.toLocaleString('en'));
/** @param {number | null | undefined} value */
const percent = (value) =>
  value == null
    ? dash
    : `${value.toLocaleString('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 })} %`;
/** @param {number | null | undefined} value */
const share = (value) => (value == null ? dash : percent(value * 100));

/** The panel's texts, as they stand. @param {import('playwright-core').Page} page */
export async function readPanel(page) {
  const panel = page.getByRole('region', { name: 'Data-parallel routing' });
  await panel.waitFor();
  return panel.evaluate((section) => {
    /** @param {Element | null} element */
    const text = (element) => element?.textContent?.replace(/\s+/g, ' ').trim() ?? '';
    const badges = [...section.querySelectorAll('.badges > li')].map((li) =>
      text(li).replace(' , change', ''),
    );
    const rows = [...section.querySelectorAll('tbody tr')].map((row) => [
      text(row.querySelector('.who')),
      ...[...row.querySelectorAll('td')].slice(0, 11).map(text),
      row.querySelector('td:last-child')?.getAttribute('title') ?? '',
    ]);
    return { badges, rows };
  });
}

/** What the panel should say. @param {Model} model */
export function expectedPanel(model) {
  const { routing } = model;
  const threshold = routing.spill_threshold;
  const badges = [
    `Affinity ${routing.affinity ? 'on' : 'off'}`,
    `Leases ${routing.leases.mode === 'auto' ? 'on' : 'off'}`,
    `Spill threshold ${count(threshold.value)} (${threshold.source})`,
    `Sticky ${percent(routing.sticky_percent)}`,
    `In flight ${count(routing.in_flight)}`,
  ];
  if (routing.balanced > 0 || !routing.affinity) badges.push(`Balanced ${count(routing.balanced)}`);
  const rows = routing.replicas.map((replica) => [
    String(replica.replica),
    count(replica.in_flight),
    count(replica.running),
    count(replica.waiting),
    count(replica.new),
    count(replica.sticky),
    count(replica.spilled_in),
    count(replica.moved_in),
    count(replica.client_pinned),
    share(replica.kv_cache_usage),
    share(replica.prefix_cache_hit_rate),
    count(replica.conversations),
    `${count(replica.committed_tokens)} of ${count(replica.kv_tokens)} tokens`,
  ]);
  return { badges, rows };
}

/** @param {import('playwright-core').Page} page @param {Model} model */
export async function assertPanelShows(page, model) {
  assert.deepEqual(await readPanel(page), expectedPanel(model));
}
