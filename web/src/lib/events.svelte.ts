// What the pages know of the warden's stream of events: whether it is live, and who wants to hear of a
// change. It is closed while the tab is hidden or the operator paused the page. It carries no
// figures, only what to read again, so nothing is lost while it is closed: whoever listens reads
// everything on return.

import type { Changed, Hello } from '../api/types';
import { SharedStream } from './shared-stream';
import type { Said } from './stream';

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

  #stream = new SharedStream((said) => this.#hear(said));
  #open = false;
  /** Whether changes may have gone unheard since everything was read. */
  #missed = false;
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
    if (this.status === 'lost') this.#stream.retryNow();
  }

  #settle() {
    if (!this.awake) {
      this.#close();
      this.status = 'paused';
    } else if (!this.#open) {
      this.#open = true;
      this.#missed = false;
      this.status = 'connecting';
      this.retryAt = null;
      this.#stream.open();
      this.#tell('everything');
    }
  }

  #close() {
    this.#open = false;
    this.#stream.close();
  }

  #hear(said: Said) {
    switch (said.kind) {
      case 'opening':
        // After a time of being live: another tab's stream has ended, and this is its successor.
        this.#missed ||= this.status === 'live';
        break;
      case 'hello':
        this.#greet(said.hello);
        break;
      case 'changed':
        this.#tell(said.changed);
        break;
      case 'lost':
        this.#missed = true;
        this.status = 'lost';
        this.lostSince = said.since;
        this.retryAt = said.retryAt;
    }
  }

  #greet(hello: Hello) {
    if (this.warden && this.warden.started !== hello.started) this.restarts += 1;
    this.warden = hello;
    this.status = 'live';
    this.lostSince = null;
    this.retryAt = null;
    if (this.#missed) this.#tell('everything');
    this.#missed = false;
  }

  #tell(changed: Changed | 'everything') {
    for (const listener of this.#listeners) listener(changed);
  }
}

export const events = new Events();
