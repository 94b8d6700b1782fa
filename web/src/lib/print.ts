// Printing: on paper everything is light, and what is drawn must be drawn again before it.

import { theme } from './theme.svelte';

/** Calls `draw` before printing, with light colours in force, and after it. Gives back the undoing. */
export function whenPrinted(draw: () => void): () => void {
  const root = document.documentElement;
  const before = () => {
    root.dataset.theme = 'light';
    draw();
  };
  const after = () => {
    if (theme.value === 'system') delete root.dataset.theme;
    else root.dataset.theme = theme.value;
    draw();
  };
  addEventListener('beforeprint', before);
  addEventListener('afterprint', after);
  return () => {
    removeEventListener('beforeprint', before);
    removeEventListener('afterprint', after);
  };
}
