// A conversation's turns: the prompt of each, and how much of it came from the cache. The cached
// part lies over the whole prompt, so that nothing needs to be subtracted.

import type { Request } from '../api/types';
import { count, dash, duration, moment } from '../lib/format';
import { base, categoryAxis, stripes, valueAxis, type Chart } from './common';
import { tip } from './tooltip';

/** `requests`: of one conversation, newest first, as the API gives them. */
export function turnsChart(requests: Request[]): Chart {
  const turns = requests.filter((request) => request.prompt_tokens != null).toReversed();
  const end = turns.at(-1)?.t ?? 0;
  const labels = turns.map((request) => (request.turn ? String(request.turn) : 'side'));

  const say = (index: number) => {
    const request = turns[index];
    if (!request) return document.createElement('div');
    return tip(
      `${request.turn ? `Turn ${request.turn}` : 'Side request'}, ${moment(request.t, end)}`,
      [
        { label: 'Prompt', colour: 'computed', value: `${count(request.prompt_tokens)} tokens` },
        {
          label: 'of it cached',
          colour: 'cached',
          value: `${count(request.cached_tokens)} tokens`,
        },
        { label: 'Replica', value: count(request.replica) },
        { label: 'Route', value: request.route ?? dash },
        { label: 'First byte', value: duration(request.ttfb_ms) },
      ],
      request.reason ?? undefined,
    );
  };

  return {
    height_px: 200,
    option: (p) => ({
      ...base(p, say),
      grid: { top: 10, height: 150, left: 56, right: 8, outerBoundsMode: 'none' },
      xAxis: categoryAxis(p, labels, 0, true),
      yAxis: valueAxis(p, 0, 3),
      series: [
        {
          id: 'prompt',
          type: 'bar',
          barGap: '-100%',
          barMaxWidth: 24,
          itemStyle: { color: p.computed, decal: stripes(p.surface) },
          data: turns.map((request) => request.prompt_tokens),
        },
        {
          id: 'cached',
          type: 'bar',
          barMaxWidth: 24,
          itemStyle: { color: p.cached },
          data: turns.map((request) => request.cached_tokens ?? null),
        },
      ],
    }),
  };
}
