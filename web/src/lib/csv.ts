// The stats as a file: the columns are the API's own names, a gap is an empty cell.

import type { Stats } from '../api/types';

const columns = [
  'prompt_tokens_cached',
  'prompt_tokens_computed',
  'completion_tokens',
  'prompt_tokens_cached_per_s',
  'prompt_tokens_computed_per_s',
  'completion_tokens_per_s',
  'requests',
  'unmeasured_requests',
  'ttfb_ms_p50',
  'ttfb_ms_p95',
] as const;

export function statsCsv(stats: Stats): string {
  const lines = stats.points.map((point) =>
    [new Date(point.t * 1000).toISOString(), ...columns.map((key) => point[key] ?? '')].join(','),
  );
  return [['t', ...columns].join(','), ...lines, ''].join('\n');
}

/** Hands the text to the browser as a download. */
export function save(name: string, text: string) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
