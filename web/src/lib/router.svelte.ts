// The pages' own router: five paths need no library. The same list of paths stands in the crate
// `assets`, which answers each of them with the one document.

export type Page =
  | { name: 'models' }
  | { name: 'model'; model: string }
  | { name: 'stats' }
  | { name: 'conversations' }
  | { name: 'conversation'; id: string }
  | { name: 'requests' }
  | { name: 'keys' }
  | { name: 'missing'; path: string };

function match(path: string): Page {
  const parts = path.split('/').filter((part) => part !== '');
  const [first, second] = parts;
  if (parts.length === 0) return { name: 'models' };
  if (parts.length === 1) {
    if (
      first === 'models' ||
      first === 'stats' ||
      first === 'conversations' ||
      first === 'requests' ||
      first === 'keys'
    )
      return { name: first };
  }
  if (parts.length === 2 && second !== undefined) {
    const name = decode(second);
    if (name !== null && first === 'models') return { name: 'model', model: name };
    if (name !== null && first === 'conversations') return { name: 'conversation', id: name };
  }
  return { name: 'missing', path };
}

function decode(part: string): string | null {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

class Router {
  page = $state.raw<Page>(match(location.pathname));
  query = $state.raw(new URLSearchParams(location.search));

  start() {
    addEventListener('popstate', () => this.#read());
    document.addEventListener('click', (event) => this.#click(event));
  }

  go(href: string) {
    history.pushState(null, '', href);
    this.#read();
    scrollTo(0, 0);
  }

  /** Changes the query of this page; what is null is left out. Makes no entry to go back to. */
  set(changes: Record<string, string | null>) {
    const query = new URLSearchParams(this.query);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null || value === '') query.delete(key);
      else query.set(key, value);
    }
    const text = query.toString();
    history.replaceState(null, '', location.pathname + (text ? `?${text}` : ''));
    this.query = query;
  }

  #read() {
    this.page = match(location.pathname);
    this.query = new URLSearchParams(location.search);
  }

  #click(event: MouseEvent) {
    if (event.defaultPrevented || event.button !== 0) return;
    if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.('a');
    if (!link || link.target || link.hasAttribute('download')) return;
    const url = new URL(link.href);
    if (url.origin !== location.origin || match(url.pathname).name === 'missing') return;
    if (url.hash && url.pathname === location.pathname) return;
    event.preventDefault();
    this.go(url.pathname + url.search);
  }
}

export const router = new Router();

export function modelHref(name: string): string {
  return `/models/${encodeURIComponent(name)}`;
}

export function conversationHref(id: string): string {
  return `/conversations/${encodeURIComponent(id)}`;
}
