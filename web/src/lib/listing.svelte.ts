// Filter, order and page of a list, kept in the URL, so that a view can be sent to someone else.
// Works on what the API gave; a page that shows only a part of it says so itself.

import { router } from './router.svelte';

const rows_per_page = 50;

export interface Column<Row> {
  /** What the URL calls it. */
  key: string;
  label: string;
  title?: string;
  number?: boolean;
  /** What orders it; rows without a value come last, whichever way it is ordered. */
  value?: (row: Row) => number | string | null | undefined;
}

export class Listing<Row> {
  #rows: () => Row[];
  #columns: Column<Row>[];
  #matches: (row: Row, words: string) => boolean;

  constructor(
    rows: () => Row[],
    columns: Column<Row>[],
    matches: (row: Row, words: string) => boolean,
  ) {
    this.#rows = rows;
    this.#columns = columns;
    this.#matches = matches;
  }

  get words(): string {
    return router.query.get('q') ?? '';
  }

  /** The column that orders, with `-` before it for descending; null for the API's own order. */
  get sort(): string | null {
    return router.query.get('sort');
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
  /** From 1. */
  page = $derived(
    Math.min(this.pages, Math.max(1, Math.floor(Number(router.query.get('page'))) || 1)),
  );
  found = $derived(this.#found.length);
  rows = $derived(this.#ordered.slice((this.page - 1) * rows_per_page, this.page * rows_per_page));
  first = $derived((this.page - 1) * rows_per_page + 1);

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

function order(
  a: number | string | null | undefined,
  b: number | string | null | undefined,
  sign: number,
): number {
  if (a == null || b == null) return a == null ? (b == null ? 0 : 1) : -1;
  if (typeof a === 'number' && typeof b === 'number') return sign * (a - b);
  return sign * String(a).localeCompare(String(b));
}
