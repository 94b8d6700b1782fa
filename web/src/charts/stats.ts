// The chart of the Stats page: prompt tokens, completion tokens, time to the first byte and requests by
// route over one time axis. Every value is the API's own; null is a gap. A tick stands where the warden
// or an engine was started or a setting changed.

import type { Route, Stats } from '../api/types';
import { count, dash, duration, moment, time } from '../lib/format';
import { base, categoryAxis, stripes, valueAxis, type Chart } from './common';
import type { Palette } from './palette';
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

/** Each with a pattern of its own beside its colour. */
const routes: { route: Route | null; colour: keyof Palette; turn: number | null }[] = [
  { route: 'sticky', colour: 'accent', turn: null },
  { route: 'new', colour: 'good', turn: 0 },
  { route: 'spilled', colour: 'warn', turn: -Math.PI / 4 },
  { route: 'moved', colour: 'bad', turn: Math.PI / 4 },
  { route: 'pinned', colour: 'quiet', turn: Math.PI / 2 },
  { route: 'balanced', colour: 'completion', turn: -Math.PI / 8 },
  { route: null, colour: 'line', turn: null },
];

const routeWord = (route: Route | null | undefined) => route ?? 'no decision';

interface Title {
  text: string;
  top: number;
  textStyle?: { fontWeight?: number; color?: string };
}

/** The steps that have marks, with their texts. */
function marked(stats: Stats): Map<number, string[]> {
  const begin = stats.points[0]?.t ?? 0;
  const steps = new Map<number, string[]>();
  for (const mark of stats.marks) {
    const step = Math.floor((mark.t - begin) / stats.step_s);
    const text = mark.model == null ? mark.text : `${mark.model}: ${mark.text}`;
    steps.set(step, [...(steps.get(step) ?? []), text]);
  }
  return steps;
}

export function statsChart(stats: Stats): Chart {
  const { points } = stats;
  const last = points.length - 1;
  const end = points[last]?.t ?? 0;
  const labels = axisLabels(points);
  const marks = marked(stats);
  const ticks = (p: Palette) => ({
    silent: true,
    animation: false,
    symbol: 'none',
    label: { show: false },
    lineStyle: { color: p.text, type: 'dotted', width: 1.5, opacity: 0.7 },
    data: [...marks.keys()].map((step) => ({ xAxis: step })),
  });
  const used = routes.filter(({ route }) =>
    points.some((point) => point.routes.some((one) => (one.route ?? null) === route)),
  );
  const ofRoute = (point: Stats['points'][number], route: Route | null) =>
    point.routes.find((one) => (one.route ?? null) === route)?.requests ?? null;
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
        ...point.routes.map((one) => ({
          label: `– ${routeWord(one.route)}`,
          value: `${count(one.requests)}, ${duration(one.ttfb_ms_p50)}`,
        })),
        { label: 'First byte, p50', colour: 'accent', value: duration(point.ttfb_ms_p50) },
        { label: 'First byte, p95', colour: 'quiet', value: duration(point.ttfb_ms_p95) },
      ],
      [...(index === last ? ['Still filling'] : []), ...(marks.get(index) ?? [])].join(' · ') ||
        undefined,
    );
  };

  return {
    height_px: 602,
    option: (p) => ({
      ...base(p, say),
      title: [
        { text: 'Prompt tokens per second', top: 3 },
        { text: 'Completion tokens per second', top: 234 },
        { text: 'Time to the first byte: p50, and p95 dashed', top: 348 },
        { text: 'Requests ended, by route', top: 462 },
        {
          text: `From below: ${used.map(({ route }) => routeWord(route)).join(', ')}`,
          top: 478,
          textStyle: { fontWeight: 400, color: p.quiet },
        },
      ].map(({ textStyle = {}, ...title }: Title) => ({
        ...title,
        left: 0,
        padding: 0,
        textStyle: {
          fontSize: 12,
          fontWeight: 600,
          color: p.text,
          fontFamily: p.font,
          ...textStyle,
        },
      })),
      grid: [
        { top: 24, height: 190 },
        { top: 258, height: 70 },
        { top: 372, height: 70 },
        { top: 504, height: 70 },
      ].map((grid) => ({ ...grid, left: 56, right: 8, outerBoundsMode: 'none' })),
      xAxis: [0, 1, 2, 3].map((index) => categoryAxis(p, labels, index, index === 3)),
      yAxis: [
        valueAxis(p, 0, 3),
        valueAxis(p, 1, 2),
        valueAxis(p, 2, 2, duration),
        valueAxis(p, 3, 2),
      ],
      series: [
        {
          id: 'cached',
          type: 'bar',
          stack: 'prompt',
          barCategoryGap: '20%',
          itemStyle: { color: p.cached },
          markLine: ticks(p),
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
          markLine: ticks(p),
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
          markLine: ticks(p),
          data: points.map((point) => point[key] ?? null),
        })),
        ...used.map(({ route, colour, turn }) => ({
          id: `route ${routeWord(route)}`,
          type: 'bar',
          stack: 'requests',
          xAxisIndex: 3,
          yAxisIndex: 3,
          barCategoryGap: '20%',
          itemStyle: {
            color: p[colour],
            ...(turn === null ? {} : { decal: { ...stripes(p.surface), rotation: turn } }),
          },
          markLine: ticks(p),
          data: bars(points.map((point) => ofRoute(point, route))),
        })),
      ],
    }),
  };
}
