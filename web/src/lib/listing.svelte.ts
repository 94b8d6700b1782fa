// Filter, order and page of a list, kept in the URL, so that a view can be sent to someone else.
// `Listing` works on rows that are all here; `RemoteListing` asks the API for each page.

import { router } from './router.svelte';

const rows_per_page = 50;
/** The API leaves out at most 50,000 rows before a page. */
const remote_pages_max = 1_000;

export interface Column<Row> {
  /** What the URL calls it. */
  key: string;
  label: string;
  title?: string;
  number?: boolean;
  /** What the API calls its order; `key` where that is the same. */
  api?: string;
  /** What orders it; rows without a value come last, whichever way it is ordered. */
  value?: (row: Row) => number | string | null | undefined;
}

/** What a table needs to know. */
export interface List<Row> {
  readonly words: string;
  readonly rows: Row[];
  /** How many match. */
  readonly found: number;
  /** From 1. */
  readonly page: number;
  readonly pages: number;
  ariaSort(key: string): 'ascending' | 'descending' | 'none';
  turn(key: string): void;
}

class InUrl {
  get words(): string {
    return router.query.get('q') ?? '';
  }

  /** The column that orders, with `-` before it for descending; null for the API's own order. */
  get sort(): string | null {
    return router.query.get('sort');
  }

  get wanted(): number {
    return Math.max(1, Math.floor(Number(router.query.get('page'))) || 1);
  }

  ariaSort(key: string): 'ascending' | 'descending' | 'none' {
    if (this.sort === key) return 'ascending';
    return this.sort === `-${key}` ? 'descending' : 'none';
  }

  /** Largest first, then smallest first, then the API's own order again. */
  turn(key: string) {
    const next = this.sort === `-${key}` ? key : this.sort === key ? null : `-${key}`;
    router.set({ sort: next, page: null });
  }
}

export class Listing<Row> extends InUrl implements List<Row> {
  #rows: () => Row[];
  #columns: Column<Row>[];
  #matches: (row: Row, words: string) => boolean;

  constructor(
    rows: () => Row[],
    columns: Column<Row>[],
    matches: (row: Row, words: string) => boolean,
  ) {
    super();
    this.#rows = rows;
    this.#columns = columns;
    this.#matches = matches;
  }

  #found = $derived.by(() => {
    const words = this.words.trim().toLowerCase();
    return words ? this.#rows().filter((row) => this.#matches(row, words)) : this.#rows();
  });

  #ordered = $derived.by(() => {
    const key = this.sort?.replace(/^-/, '');
    const value = this.#columns.find((column) => column.key === key)?.value;
    if (!value) return this.#found;
    const sign = this.sort?.startsWith('-') ? -1 : 1;
    return this.#found.toSorted((a, b) => order(value(a), value(b), sign));
  });

  pages = $derived(Math.max(1, Math.ceil(this.#found.length / rows_per_page)));
  page = $derived(Math.min(this.pages, this.wanted));
  found = $derived(this.#found.length);
  rows = $derived(this.#ordered.slice((this.page - 1) * rows_per_page, this.page * rows_per_page));
}

/** One page of rows, as the API gave it. */
export interface Page<Row> {
  rows: Row[];
  matching: number;
}

export class RemoteListing<Row> extends InUrl implements List<Row> {
  #columns: Column<Row>[];
  #latest: () => Page<Row> | null;

  constructor(columns: Column<Row>[], latest: () => Page<Row> | null) {
    super();
    this.#columns = columns;
    this.#latest = latest;
  }

  /** What to ask the API, with the filters of the page. */
  ask(filters: Record<string, string | number | null>): string {
    const query = new URLSearchParams({ limit: String(rows_per_page) });
    const page = Math.min(this.wanted, remote_pages_max);
    if (page > 1) query.set('offset', String((page - 1) * rows_per_page));
    const key = this.sort?.replace(/^-/, '');
    const column = this.#columns.find((one) => one.key === key);
    if (column) {
      query.set('sort', (this.sort?.startsWith('-') ? '-' : '') + (column.api ?? column.key));
    }
    const words = this.words.trim();
    if (words) query.set('q', words);
    for (const [name, value] of Object.entries(filters)) {
      if (value !== null && value !== '') query.set(name, String(value));
    }
    return query.toString();
  }

  found = $derived.by(() => this.#latest()?.matching ?? 0);
  pages = $derived(Math.min(remote_pages_max, Math.max(1, Math.ceil(this.found / rows_per_page))));
  page = $derived(this.wanted);
  rows = $derived.by(() => this.#latest()?.rows ?? []);
}

function order(
  a: number | string | null | undefined,
  b: number | string | null | undefined,
  sign: number,
): number {
  if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1;
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * String(a).localeCompare(String(b));
}
