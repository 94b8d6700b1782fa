// A figure of the API that stays current: read at once, again when the stream of events says that
// it changed, and from time to time all the same (ages grow without an event, and a stream can be
// silently dead). The last good answer stays on the page while calls fail.

import { untrack } from 'svelte';
import { Failure, get } from '../api/client';
import type { Changed } from '../api/types';
import { backoffMs } from './backoff';
import { events } from './events.svelte';

/** Changes come in bursts; one reading answers all of a burst. Long lists ask for a longer gap. */
const gap_ms_default = 400;

interface Options {
  /** Whether a change may concern this figure. */
  concerns: (changed: Changed) => boolean;
  /** How often to read without a sign of change. */
  everyMs: number;
  /** The shortest time between two readings because of changes. */
  gapMs?: number;
}

export class Live<T> {
  data = $state.raw<T | null>(null);
  failure = $state.raw<Failure | null>(null);
  /** Since when calls fail, in epoch seconds. */
  failingSince = $state<number | null>(null);
  /** When `data` was received, in epoch seconds. */
  updatedAt = $state<number | null>(null);

  #path: string | null = null;
  #options: Options;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #call: AbortController | null = null;
  #startedAt = -Infinity;
  #again = false;
  #failures = 0;
  #gap_ms: number;

  constructor(options: Options) {
    this.#options = options;
    this.#gap_ms = options.gapMs ?? gap_ms_default;
  }

  /** Reads this path from now on; `null` stops. Another path drops what was known. */
  follow(path: string | null) {
    if (path === this.#path) return;
    this.#call?.abort();
    this.#call = null;
    clearTimeout(this.#timer);
    this.#path = path;
    this.data = null;
    this.failure = null;
    this.failingSince = null;
    this.updatedAt = null;
    this.#failures = 0;
    this.#again = false;
    if (path !== null) void this.refresh();
  }

  /** Takes note of what the events' stream said. */
  notice(changed: Changed | 'everything') {
    if (changed === 'everything') {
      this.#failures = 0;
      void this.refresh();
    } else if (this.#options.concerns(changed)) {
      this.#schedule(Math.max(0, this.#startedAt + this.#gap_ms - performance.now()));
    }
  }

  /** Puts in what a change answered, without waiting for the next reading. */
  put(data: T) {
    this.data = data;
    this.updatedAt = Date.now() / 1000;
  }

  async refresh() {
    if (this.#path === null) return;
    if (this.#call) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    const call = new AbortController();
    this.#call = call;
    this.#startedAt = performance.now();
    try {
      const data = await get<T>(this.#path, call.signal);
      if (call.signal.aborted) return;
      this.put(data);
      this.failure = null;
      this.failingSince = null;
      this.#failures = 0;
    } catch (error) {
      if (call.signal.aborted) return;
      this.#failures += 1;
      this.failure = error instanceof Failure ? error : new Failure('broken', String(error));
      this.failingSince ??= Date.now() / 1000;
    }
    this.#call = null;
    const again = this.#again;
    this.#again = false;
    if (again) this.#schedule(this.#gap_ms);
    else this.#schedule(this.#failures ? backoffMs(this.#failures) : this.#options.everyMs);
  }

  #schedule(wait_ms: number) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (events.awake) void this.refresh();
    }, wait_ms);
  }
}

/** For components: follows `path()` for as long as the component lives. */
export function live<T>(path: () => string | null, options: Options): Live<T> {
  const figure = new Live<T>(options);
  $effect(() => {
    const now = path();
    untrack(() => figure.follow(now));
  });
  $effect(() => {
    const unsubscribe = events.subscribe((changed) => figure.notice(changed));
    return () => {
      unsubscribe();
      figure.follow(null);
    };
  });
  return figure;
}
