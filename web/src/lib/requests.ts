// The columns of a list of requests, as the page of all and that of one conversation show them.

import type { Request } from '../api/types';
import type { Column } from './listing.svelte';

/** `named`: with the conversation's column; else with the silence before each turn. */
export function requestColumns(named: boolean): Column<Request>[] {
  const columns: (Column<Request> | null)[] = [
    { key: 't', label: 'Arrived', value: (request) => request.t },
    named ? { key: 'conversation', label: 'Conversation', value: (r) => r.conversation } : null,
    { key: 'turn', label: 'Turn', number: true, value: (request) => request.turn },
    named
      ? null
      : {
          key: 'gap',
          label: 'Silence',
          title: 'From the end of the turn before to its arrival',
          number: true,
          value: (request) => request.gap_ms,
        },
    { key: 'route', label: 'Route', value: (request) => request.route },
    { key: 'replica', label: 'Replica', number: true, value: (request) => request.replica },
    {
      key: 'queue',
      api: 'queue_ms',
      label: 'Queued',
      title: 'How long it waited in the warden',
      number: true,
      value: (request) => request.queue_ms,
    },
    {
      key: 'ttfb',
      api: 'ttfb_ms',
      label: 'First byte',
      title: 'From its arrival to the first byte of its reply',
      number: true,
      value: (request) => request.ttfb_ms,
    },
    {
      key: 'total',
      api: 'total_ms',
      label: 'Total',
      number: true,
      value: (request) => request.total_ms,
    },
    {
      key: 'cached',
      api: 'cached_tokens',
      label: 'Cached',
      title: 'Prompt tokens read from the prefix cache',
      number: true,
      value: (request) => request.cached_tokens,
    },
    named
      ? null
      : {
          key: 'computed',
          label: 'Computed',
          title: 'All other prompt tokens',
          number: true,
          value: (request) => request.computed_tokens,
        },
    {
      key: 'prompt',
      api: 'prompt_tokens',
      label: 'Prompt',
      title: 'All prompt tokens, cached ones included',
      number: true,
      value: (request) => request.prompt_tokens,
    },
    {
      key: 'completion',
      api: 'completion_tokens',
      label: 'Completion',
      title: 'Completion tokens',
      number: true,
      value: (request) => request.completion_tokens,
    },
    { key: 'end', label: 'End', value: (request) => request.end },
  ];
  return columns.filter((column) => column !== null);
}
