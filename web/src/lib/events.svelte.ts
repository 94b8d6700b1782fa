// The stream of what changed (`/api/v1/events`): one per tab, reconnected with back-off, closed
// while the tab is hidden or the operator paused the page. It carries no figures, only what to
// read again, so nothing is lost while it is closed: whoever listens reads everything on return.
//
// The browser's own reconnection is not used: it gives up for good after an error status, and it
// does not tell the page when it will try again.

import type { Changed, Hello } from '../api/types';
import { backoffMs } from './backoff';

export type Status = 'connecting' | 'live' | 'lost' | 'paused';

type Listener = (changed: Changed | 'everything') => void;

class Events {
  status = $state<Status>('connecting');
  /** When the next attempt begins, in epoch seconds; only while lost. */
  retryAt = $state<number | null>(null);
  /** Since when the stream is lost, in epoch seconds. */
  lostSince = $state<number | null>(null);
  warden = $state.raw<Hello | null>(null);
  /** Counts the restarts of the warden that this tab has seen. */
  restarts = $state(0);
  paused = $state(false);
  /** While the pages are shut. */
  #held = true;

  #source: EventSource | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #listeners = new Set<Listener>();

  start() {
    document.addEventListener('visibilitychange', () => this.#settle());
    addEventListener('online', () => this.retryNow());
    // A page that is kept for the back button must not keep its connection.
    addEventListener('pagehide', () => this.#close());
    addEventListener('pageshow', () => this.#settle());
    this.#settle();
  }

  /** Whether figures may be read now: not while hidden or paused. */
  get awake(): boolean {
    return !this.#held && !this.paused && !document.hidden;
  }

  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stops asking until it is called with false. */
  hold(held: boolean) {
    if (held === this.#held) return;
    this.#held = held;
    this.#settle();
  }

  togglePause() {
    this.paused = !this.paused;
    this.#settle();
  }

  retryNow() {
    if (this.status !== 'lost') return;
    this.#failures = 0;
    this.#close();
    this.#settle();
  }

  #settle() {
    if (!this.awake) {
      this.#close();
      this.status = 'paused';
    } else if (!this.#source) {
      this.#open();
      this.#tell('everything');
    }
  }

  #open() {
    clearTimeout(this.#timer);
    if (this.status !== 'lost') this.status = 'connecting';
    this.retryAt = null;
    const source = new EventSource('/api/v1/events');
    this.#source = source;
    source.addEventListener('hello', (event) => this.#greet(JSON.parse(event.data) as Hello));
    source.addEventListener('changed', (event) => this.#tell(JSON.parse(event.data) as Changed));
    source.onerror = () => this.#lose();
  }

  #greet(hello: Hello) {
    if (this.warden && this.warden.started !== hello.started) this.restarts += 1;
    const returned = this.status === 'lost';
    this.warden = hello;
    this.#failures = 0;
    this.status = 'live';
    this.lostSince = null;
    if (returned) this.#tell('everything');
  }

  #lose() {
    this.#close();
    this.#failures += 1;
    const wait_ms = backoffMs(this.#failures);
    this.status = 'lost';
    this.lostSince ??= Date.now() / 1000;
    this.retryAt = (Date.now() + wait_ms) / 1000;
    this.#timer = setTimeout(() => this.#open(), wait_ms);
  }

  #close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  #tell(changed: Changed | 'everything') {
    for (const listener of this.#listeners) listener(changed);
  }
}

export const events = new Events();
