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
  const routes = [...new Set(stats.points.flatMap((point) => point.routes.map(nameOf)))].sort();
  const lines = stats.points.map((point) =>
    [
      new Date(point.t * 1000).toISOString(),
      ...columns.map((key) => point[key] ?? ''),
      // Without requests there is nothing to count; with some, a route that none took is a zero.
      ...routes.map((route) => requestsOf(point, route)),
    ].join(','),
  );
  const head = ['t', ...columns, ...routes.map((route) => `requests_${route}`)];
  return [head.join(','), ...lines, ''].join('\n');
}

/** Of the rule; a refused request had none. */
const nameOf = ({ route }: { route?: string | null }) => route ?? 'none';

function requestsOf(point: Stats['points'][number], route: string) {
  const taken = point.routes.find((one) => nameOf(one) === route);
  return taken?.requests ?? (point.requests == null ? '' : 0);
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
