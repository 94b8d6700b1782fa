// Keys, alone (`p`) or one after the other (`g s`). Nothing happens while something is typed or a
// dialog is open, or together with a modifier, which belongs to the browser.

const sequence_ms_max = 1_200;

export function shortcuts(actions: Record<string, () => void>): () => void {
  let first: { key: string; at: number } | null = null;

  function press(event: KeyboardEvent) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = event.target as Element | null;
    if (target?.closest?.('input, select, textarea, dialog')) return;
    const chord =
      first && event.timeStamp - first.at < sequence_ms_max ? `${first.key} ${event.key}` : null;
    const action = (chord !== null && actions[chord]) || actions[event.key];
    first = null;
    if (action) {
      event.preventDefault();
      action();
    } else if (Object.keys(actions).some((keys) => keys.startsWith(`${event.key} `))) {
      first = { key: event.key, at: event.timeStamp };
    }
  }

  addEventListener('keydown', press);
  return () => removeEventListener('keydown', press);
}
