// The colours of the style sheet as a canvas can use them, for the theme that is shown now.

const names = [
  'text',
  'quiet',
  'line',
  'surface',
  'accent',
  'cached',
  'computed',
  'completion',
  'good',
  'warn',
  'bad',
] as const;

export type Palette = Record<(typeof names)[number], string> & { font: string };

export function palette(element: Element): Palette {
  const probe = document.createElement('span');
  element.append(probe);
  const style = getComputedStyle(probe);
  const colours = names.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, style.color];
  });
  const font = style.fontFamily;
  probe.remove();
  return { ...Object.fromEntries(colours), font } as Palette;
}
