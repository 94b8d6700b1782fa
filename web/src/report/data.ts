// What `lm-warden bench` puts into the page. Computes nothing: every figure is the results' own.

/** One policy at one load; its figures by name, each with `<name>_sd` beside it. */
export interface Cell {
  workload: string;
  sessions: number;
  policy: string;
  runs: number;
  [figure: string]: number | string | null | undefined;
}

export interface Source {
  kind: 'bench' | 'simulation' | 'published';
  name: string;
  /** Epoch seconds; null where it was published. */
  started: number | null;
  settings: Record<string, unknown> | null;
  cells: Cell[];
}

export interface Report {
  version: string;
  sources: Source[];
}

export function read(): Report | null {
  const text = document.getElementById('report')?.textContent ?? 'null';
  return JSON.parse(text) as Report | null;
}

export function figure(cell: Cell | undefined, name: string): number | null {
  const value = cell?.[name];
  return typeof value === 'number' ? value : null;
}

export function find(source: Source, policy: string, sessions: number): Cell | undefined {
  return source.cells.find((cell) => cell.policy === policy && cell.sessions === sessions);
}

/** The loads of a source, rising. */
export function levels(source: Source): number[] {
  return [...new Set(source.cells.map((cell) => cell.sessions))].sort((a, b) => a - b);
}

const first = ['balanced', 'affinity', 'leases'];

/** Policies in the order in which they are shown: the engine's own balancer first. */
export function policies(source: Source): string[] {
  const all = [...new Set(source.cells.map((cell) => cell.policy))];
  const place = (policy: string) => (first.includes(policy) ? first.indexOf(policy) : first.length);
  return all.sort((a, b) => place(a) - place(b));
}

const words: Record<string, string> = {
  balanced: 'affinity off',
  affinity: 'affinity on',
  leases: 'affinity and leases',
  'affinity-gauge': 'affinity, placed by gauge',
  hash: 'by hash of the session',
  direct: 'this server',
};

export function word(policy: string): string {
  return words[policy] ?? policy;
}
