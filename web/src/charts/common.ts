// What all charts have in common: quiet axes, one crosshair, exact values under the pointer.

import type { EChartsCoreOption } from 'echarts/core';
import type { Palette } from './palette';

/** Ticks are round numbers: `5K`. */
const round = new Intl.NumberFormat('en', { notation: 'compact' });

export type Option = EChartsCoreOption;

export interface Chart {
  height_px: number;
  option: (palette: Palette) => Option;
}

export function categoryAxis(p: Palette, labels: string[], gridIndex: number, shown: boolean) {
  return {
    type: 'category',
    gridIndex,
    data: labels,
    axisTick: { show: false },
    axisLine: { lineStyle: { color: p.line } },
    axisLabel: { show: shown, color: p.quiet, fontSize: 11, hideOverlap: true },
    axisPointer: { label: { show: false } },
  };
}

export function valueAxis(
  p: Palette,
  gridIndex: number,
  splitNumber: number,
  format: (value: number) => string = (value) => round.format(value),
) {
  return {
    type: 'value',
    gridIndex,
    splitNumber,
    min: 0,
    axisLabel: { color: p.quiet, fontSize: 11, formatter: format },
    splitLine: { lineStyle: { color: p.line } },
    axisPointer: { show: false },
  };
}

/** Diagonal stripes: tells computed from cached without its colour. */
export function stripes(colour: string) {
  return {
    symbol: 'rect',
    color: colour,
    dashArrayX: [1, 0],
    dashArrayY: [2, 4],
    rotation: -Math.PI / 4,
  };
}

export function base(p: Palette, formatter: (index: number) => HTMLElement): Option {
  return {
    animation: false,
    textStyle: { fontFamily: p.font, color: p.text },
    axisPointer: {
      link: [{ xAxisIndex: 'all' }],
      lineStyle: { color: p.quiet, type: 'dashed' },
    },
    tooltip: {
      trigger: 'axis',
      transitionDuration: 0,
      confine: true,
      padding: 0,
      borderWidth: 0,
      backgroundColor: 'transparent',
      extraCssText: 'box-shadow: none',
      formatter: (items: { dataIndex: number }[]) =>
        items[0] ? formatter(items[0].dataIndex) : document.createElement('div'),
    },
  };
}
