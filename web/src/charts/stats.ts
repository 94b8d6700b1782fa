// The chart of the Stats page: prompt tokens, completion tokens and time to the first byte over one
// time axis. Every value is the API's own; null is a gap.

import type { Stats } from '../api/types';
import { count, dash, duration, moment, time } from '../lib/format';
import { base, categoryAxis, stripes, valueAxis, type Chart } from './common';
import { tip } from './tooltip';

const rate = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

function perSecond(value: number | null | undefined): string {
  return value == null ? dash : `${rate.format(value)} tokens/s`;
}

/** Times of day; the date where another day begins. */
function axisLabels(points: Stats['points']): string[] {
  let day = '';
  return points.map((point) => {
    const today = new Date(point.t * 1000).toDateString();
    const text = time(point.t).replace(/:00$/, '');
    const label = day !== '' && day !== today ? moment(point.t, 0) : text;
    day = today;
    return label;
  });
}

export function statsChart(stats: Stats): Chart {
  const { points } = stats;
  const last = points.length - 1;
  const end = points[last]?.t ?? 0;
  const labels = axisLabels(points);
  // The step that is still filling is drawn lighter: it is no slump.
  const bars = (values: (number | null | undefined)[]) =>
    values.map((value, index) => ({
      value: value ?? null,
      ...(index === last ? { itemStyle: { opacity: 0.5 } } : {}),
    }));

  const say = (index: number) => {
    const point = points[index];
    if (!point) return document.createElement('div');
    return tip(
      `${moment(point.t, end)} to ${moment(point.t + stats.step_s, end)}`,
      [
        { label: 'Cached', colour: 'cached', value: perSecond(point.prompt_tokens_cached_per_s) },
        {
          label: 'Computed',
          colour: 'computed',
          value: perSecond(point.prompt_tokens_computed_per_s),
        },
        {
          label: 'Completion',
          colour: 'completion',
          value: perSecond(point.completion_tokens_per_s),
        },
        { label: 'Cached tokens', value: count(point.prompt_tokens_cached) },
        { label: 'Computed tokens', value: count(point.prompt_tokens_computed) },
        { label: 'Completion tokens', value: count(point.completion_tokens) },
        { label: 'Requests ended', value: count(point.requests) },
        { label: 'First byte, p50', colour: 'accent', value: duration(point.ttfb_ms_p50) },
        { label: 'First byte, p95', colour: 'quiet', value: duration(point.ttfb_ms_p95) },
      ],
      index === last ? 'Still filling' : undefined,
    );
  };

  return {
    height_px: 470,
    option: (p) => ({
      ...base(p, say),
      title: [
        { text: 'Prompt tokens per second', top: 3 },
        { text: 'Completion tokens per second', top: 234 },
        { text: 'Time to the first byte: p50, and p95 dashed', top: 348 },
      ].map((title) => ({
        ...title,
        left: 0,
        padding: 0,
        textStyle: { fontSize: 12, fontWeight: 600, color: p.text, fontFamily: p.font },
      })),
      grid: [
        { top: 24, height: 190 },
        { top: 258, height: 70 },
        { top: 372, height: 70 },
      ].map((grid) => ({ ...grid, left: 56, right: 8, outerBoundsMode: 'none' })),
      xAxis: [0, 1, 2].map((index) => categoryAxis(p, labels, index, index === 2)),
      yAxis: [valueAxis(p, 0, 3), valueAxis(p, 1, 2), valueAxis(p, 2, 2, duration)],
      series: [
        {
          id: 'cached',
          type: 'bar',
          stack: 'prompt',
          barCategoryGap: '20%',
          itemStyle: { color: p.cached },
          data: bars(points.map((point) => point.prompt_tokens_cached_per_s)),
        },
        {
          id: 'computed',
          type: 'bar',
          stack: 'prompt',
          itemStyle: { color: p.computed, decal: stripes(p.surface) },
          data: bars(points.map((point) => point.prompt_tokens_computed_per_s)),
        },
        {
          id: 'completion',
          type: 'bar',
          xAxisIndex: 1,
          yAxisIndex: 1,
          barCategoryGap: '20%',
          itemStyle: { color: p.completion },
          data: bars(points.map((point) => point.completion_tokens_per_s)),
        },
        ...(['ttfb_ms_p50', 'ttfb_ms_p95'] as const).map((key) => ({
          id: key,
          type: 'line',
          xAxisIndex: 2,
          yAxisIndex: 2,
          // A single point between two gaps has no line; its symbol shows it.
          symbolSize: 3,
          lineStyle: { width: 1.5, type: key === 'ttfb_ms_p50' ? 'solid' : 'dashed' },
          color: key === 'ttfb_ms_p50' ? p.accent : p.quiet,
          data: points.map((point) => point[key] ?? null),
        })),
      ],
    }),
  };
}
