// The warden's stream of what changed (`/api/v1/events`), reconnected with back-off.
//
// The browser's own reconnection is not used: it gives up for good after an error status, and it
// does not tell the page when it will try again.

import type { Changed, Hello } from '../api/types';
import { backoffMs } from './backoff';

/** What a stream tells; plain data, since one tab tells it to the others. */
export type Said =
  | { kind: 'opening' }
  | { kind: 'hello'; hello: Hello }
  | { kind: 'changed'; changed: Changed }
  /** Both in epoch seconds. */
  | { kind: 'lost'; since: number; retryAt: number };

export class Stream {
  #say: (said: Said) => void;
  #source: EventSource | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #failures = 0;
  #lostSince: number | null = null;

  constructor(say: (said: Said) => void) {
    this.#say = say;
  }

  open() {
    this.#failures = 0;
    this.#lostSince = null;
    this.#connect();
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
  }

  /** At once, and with short waits again. */
  retryNow() {
    this.#failures = 0;
    this.#connect();
  }

  #connect() {
    this.close();
    if (this.#lostSince === null) this.#say({ kind: 'opening' });
    const source = new EventSource('/api/v1/events');
    this.#source = source;
    source.addEventListener('hello', (event) => {
      this.#failures = 0;
      this.#lostSince = null;
      this.#say({ kind: 'hello', hello: JSON.parse(event.data) as Hello });
    });
    source.addEventListener('changed', (event) => {
      this.#say({ kind: 'changed', changed: JSON.parse(event.data) as Changed });
    });
    source.onerror = () => this.#lose();
  }

  #lose() {
    this.close();
    this.#failures += 1;
    const wait_ms = backoffMs(this.#failures);
    const now_ms = Date.now();
    this.#lostSince ??= now_ms / 1000;
    this.#say({ kind: 'lost', since: this.#lostSince, retryAt: (now_ms + wait_ms) / 1000 });
    this.#timer = setTimeout(() => this.#connect(), wait_ms);
  }
}
