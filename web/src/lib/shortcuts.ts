// Keys, alone (`p`) or one after the other (`g s`). Nothing happens while something is typed or a
// dialog is open, or together with a modifier, which belongs to the browser.
//
// One listener serves all components: `g c` of the app must not be taken for the `c` of a page.

const sequence_ms_max = 1_200;

const actions = new Map<string, () => void>();
let first: { key: string; at: number } | null = null;

/** Adds keys until the returned function is called. */
export function shortcuts(added: Record<string, () => void>): () => void {
  if (actions.size === 0) addEventListener('keydown', press);
  for (const [keys, action] of Object.entries(added)) actions.set(keys, action);
  return () => {
    for (const keys of Object.keys(added)) actions.delete(keys);
    if (actions.size === 0) removeEventListener('keydown', press);
  };
}

function press(event: KeyboardEvent) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const target = event.target as Element | null;
  if (target?.closest?.('input, select, textarea, dialog')) return;
  const before = first && event.timeStamp - first.at < sequence_ms_max ? first.key : null;
  first = null;
  const action = actions.get(`${before} ${event.key}`) ?? actions.get(event.key);
  if (action) {
    event.preventDefault();
    action();
  } else if ([...actions.keys()].some((keys) => keys.startsWith(`${event.key} `))) {
    first = { key: event.key, at: event.timeStamp };
  }
}
