// What the page of keys says about one key.

import type { Key, KeyLimits } from '../api/types';
import { count, dash } from './format';
import type { Column } from './listing.svelte';

export const keyColumns: Column<Key>[] = [
  { key: 'name', label: 'Name', value: (key) => key.name },
  { key: 'role', label: 'Role', value: (key) => key.role },
  { key: 'used', label: 'Last used', value: (key) => key.last_used },
  { key: 'flight', label: 'In flight', number: true, value: (key) => key.in_flight },
  { key: 'requests', label: 'Requests', number: true, value: (key) => key.requests },
  {
    key: 'limited',
    label: 'Limited',
    title: 'requests that a limit turned away (429)',
    number: true,
    value: (key) => key.limited,
  },
  {
    key: 'cached',
    label: 'Cached tokens',
    title: 'prompt tokens that the engine had in its prefix cache',
    number: true,
    value: (key) => key.prompt_tokens_cached,
  },
  {
    key: 'computed',
    label: 'Computed',
    title: 'prompt tokens that the engine read; unmeasured ones among them',
    number: true,
    value: (key) => key.prompt_tokens_computed,
  },
  {
    key: 'generated',
    label: 'Generated',
    title: 'completion tokens',
    number: true,
    value: (key) => key.completion_tokens,
  },
  { key: 'limits', label: 'Limits' },
  { key: 'expires', label: 'Expires', value: (key) => key.expires },
];

export function limitsInWords(limits: KeyLimits): string {
  const words = [
    limits.requests_per_min == null ? null : `${count(limits.requests_per_min)} requests/min`,
    limits.concurrent_requests == null ? null : `${count(limits.concurrent_requests)} at once`,
    limits.tokens_per_min == null ? null : `${count(limits.tokens_per_min)} tokens/min`,
  ].filter((word) => word !== null);
  return words.length > 0 ? words.join(', ') : dash;
}

const dated = new Intl.DateTimeFormat('en', { dateStyle: 'medium' });

/** A day in the browser's zone; epoch seconds. */
export function day(t: number): string {
  return dated.format(t * 1000);
}
