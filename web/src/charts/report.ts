// The three published figures of a bench: TTFB, replicas busy, prefix hits, each by load. All sources
// of a figure have the same axis, so that they can be compared side by side.

import { figure, find, levels, policies, word, type Report, type Source } from '../report/data';
import { base, categoryAxis, stripes, valueAxis, type Chart } from './common';
import type { Palette } from './palette';
import { tip, type TipRow } from './tooltip';

export type FigureKind = 'ttfb' | 'busy' | 'hits';

interface Row {
  name: string;
  label: string;
  decimals: number;
  unit: string;
}

const rows: Record<FigureKind, Row[]> = {
  ttfb: [
    { name: 'ttfb_s_p50', label: 'median', decimals: 2, unit: ' s' },
    { name: 'ttfb_s_p95', label: 'p95', decimals: 2, unit: ' s' },
  ],
  busy: [{ name: 'replicas_busy', label: '', decimals: 2, unit: '' }],
  hits: [{ name: 'prefix_hit_percent_vllm', label: '', decimals: 1, unit: ' %' }],
};

/** A policy has the same colour in every chart. */
const colours: Record<string, 'quiet' | 'accent' | 'completion' | 'computed' | 'cached'> = {
  balanced: 'quiet',
  affinity: 'accent',
  leases: 'computed',
};

export function colourOf(policy: string) {
  return colours[policy] ?? 'completion';
}

/** Smallest and largest value that any source has of a figure. */
function range(report: Report, kind: FigureKind): [number, number] {
  const values = report.sources.flatMap((source) =>
    source.cells.flatMap((cell) =>
      rows[kind].map((row) => figure(cell, row.name)).filter((value) => value !== null),
    ),
  );
  return [Math.min(...values), Math.max(...values)];
}

function logAxis(p: Palette, [least, most]: [number, number]) {
  return {
    ...valueAxis(p, 0, 3, seconds),
    type: 'log',
    min: 10 ** Math.floor(Math.log10(Math.max(least, 1e-3))),
    max: 10 ** Math.ceil(Math.log10(Math.max(most, 1e-2))),
  };
}

const seconds = (value: number) => `${Number(value.toPrecision(1))} s`;

function text(source: Source, policy: string, sessions: number, row: Row): string {
  const cell = find(source, policy, sessions);
  const value = figure(cell, row.name);
  if (value === null) return '–';
  const sd = figure(cell, `${row.name}_sd`);
  const spread = sd !== null && (cell?.runs ?? 1) > 1 ? ` ± ${sd.toFixed(row.decimals)}` : '';
  return `${value.toFixed(row.decimals)}${spread}${row.unit}`;
}

export function reportChart(report: Report, source: Source, kind: FigureKind): Chart {
  const loads = levels(source);
  const shown = policies(source);
  const [least, most] = range(report, kind);

  const say = (index: number) => {
    const sessions = loads[index];
    if (sessions === undefined) return document.createElement('div');
    const lines: TipRow[] = shown.flatMap((policy) =>
      rows[kind].map((row) => ({
        label: [word(policy), row.label].filter(Boolean).join(', '),
        colour: colourOf(policy),
        value: text(source, policy, sessions, row),
      })),
    );
    return tip(`${sessions} sessions`, lines);
  };

  const values = (policy: string, name: string) =>
    loads.map((sessions) => {
      const value = figure(find(source, policy, sessions), name);
      // A logarithm has no place for zero.
      return kind === 'ttfb' && value !== null ? Math.max(value, 1e-3) : value;
    });

  const lines = (p: Palette) =>
    shown.flatMap((policy) =>
      rows.ttfb.map((row) => ({
        id: `${policy} ${row.name}`,
        type: 'line',
        symbol: row.label === 'median' ? 'circle' : 'emptyCircle',
        symbolSize: 6,
        lineStyle: { width: 2, type: row.label === 'median' ? 'solid' : 'dashed' },
        color: p[colourOf(policy)],
        data: values(policy, row.name),
      })),
    );

  const bars = (p: Palette, row: Row | undefined) =>
    shown.map((policy) => ({
      id: policy,
      type: 'bar',
      barMaxWidth: 26,
      barGap: '8%',
      itemStyle: {
        color: p[colourOf(policy)],
        ...(policy === 'balanced' ? { decal: stripes(p.surface) } : {}),
      },
      data: values(policy, row?.name ?? ''),
    }));

  return {
    height_px: kind === 'ttfb' ? 250 : 200,
    option: (p) => ({
      ...base(p, say),
      grid: { top: 10, bottom: 26, left: 52, right: 8, outerBoundsMode: 'none' },
      xAxis: categoryAxis(
        p,
        loads.map((load) => String(load)),
        0,
        true,
      ),
      yAxis:
        kind === 'ttfb'
          ? logAxis(p, [least, most])
          : {
              ...valueAxis(p, 0, 4),
              ...(kind === 'hits' ? { max: 100, interval: 25 } : { max: Math.ceil(most) }),
            },
      series: kind === 'ttfb' ? lines(p) : bars(p, rows[kind][0]),
    }),
  };
}
