// A conversation's turns: of each prompt what came from the cache and what was computed; cold turns
// are marked.

import type { Request } from '../api/types';
import { count, dash, duration, moment } from '../lib/format';
import { base, categoryAxis, stripes, valueAxis, type Chart } from './common';
import { tip } from './tooltip';

/** `requests`: of one conversation, newest first, as the API gives them. */
export function turnsChart(requests: Request[]): Chart {
  const turns = requests.filter((request) => request.prompt_tokens != null).toReversed();
  const end = turns.at(-1)?.t ?? 0;
  const labels = turns.map((request) =>
    request.side || !request.turn ? 'side' : String(request.turn),
  );

  const say = (index: number) => {
    const request = turns[index];
    if (!request) return document.createElement('div');
    return tip(
      `${request.side || !request.turn ? 'Side request' : `Turn ${request.turn}`}, ${moment(request.t, end)}`,
      [
        { label: 'Prompt', value: `${count(request.prompt_tokens)} tokens` },
        { label: 'Cached', colour: 'cached', value: `${count(request.cached_tokens)} tokens` },
        {
          label: 'Computed',
          colour: 'computed',
          value: `${count(request.computed_tokens)} tokens`,
        },
        { label: 'Silent before', value: duration(request.gap_ms) },
        { label: 'Replica', value: count(request.replica) },
        { label: 'Route', value: request.route ?? dash },
        { label: 'First byte', value: duration(request.ttfb_ms) },
      ],
      request.cold ? `Cold: ${request.cold.sentence}` : (request.reason ?? undefined),
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
          id: 'cached',
          type: 'bar',
          stack: 'prompt',
          barMaxWidth: 24,
          itemStyle: { color: p.cached },
          data: turns.map((request) => request.cached_tokens ?? null),
        },
        {
          id: 'computed',
          type: 'bar',
          stack: 'prompt',
          barMaxWidth: 24,
          itemStyle: { color: p.computed, decal: stripes(p.surface) },
          data: turns.map((request) => ({
            value: request.computed_tokens ?? null,
            label: { show: request.cold != null, position: 'top', formatter: '▼', color: p.text },
          })),
        },
      ],
    }),
  };
}
