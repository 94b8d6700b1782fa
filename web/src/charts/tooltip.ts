// What a chart says about one place of its time axis. Built as elements, not as text: the content
// security policy allows no styles inside of HTML text, which ECharts' own tooltips have.

export interface TipRow {
  label: string;
  value: string;
  /** The class of its colour sample; none for figures that are not drawn. */
  colour?: 'cached' | 'computed' | 'completion' | 'accent' | 'quiet';
}

export function tip(title: string, rows: TipRow[], note?: string): HTMLElement {
  const box = document.createElement('div');
  box.className = 'chart-tip';
  box.append(part('strong', title));
  const list = document.createElement('dl');
  for (const row of rows) {
    const label = part('dt', row.label);
    if (row.colour) label.className = `sample ${row.colour}`;
    list.append(label, part('dd', row.value));
  }
  box.append(list);
  if (note) box.append(part('p', note));
  return box;
}

function part(tag: string, text: string): HTMLElement {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
