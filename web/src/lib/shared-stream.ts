// One stream of events for all tabs of a browser. Over HTTP/1.1 a browser has six connections to a
// server, whatever the number of its tabs; a stream for each would leave a seventh tab none to read
// figures with.
//
// The tab that holds a lock has the stream and tells the others what it says; when it is closed,
// hidden or paused, the next in line takes over. Where there are no locks (plain HTTP to another
// machine: the browser keeps them from pages that it cannot trust) each tab has a stream of its own.

import { Stream, type Said } from './stream';

const name = 'lm-warden-events';

type Between = Said | { kind: 'who' } | { kind: 'retry' };

export class SharedStream {
  #say: (said: Said) => void;
  #stream: Stream;
  /** The last thing that is still true, for a tab that joins. */
  #state: Said = { kind: 'opening' };
  #leads = false;
  #channel: BroadcastChannel | null = null;
  #leave: AbortController | null = null;

  constructor(say: (said: Said) => void) {
    this.#say = say;
    this.#stream = new Stream((said) => {
      if (said.kind !== 'changed') this.#state = said;
      this.#channel?.postMessage(said);
      say(said);
    });
  }

  open() {
    this.close();
    // Old browsers and pages that are not trusted have none, whatever the types say.
    if (!('locks' in navigator)) {
      this.#leads = true;
      this.#stream.open();
      return;
    }
    const channel = new BroadcastChannel(name);
    channel.onmessage = (event) => this.#hear(event.data as Between);
    this.#channel = channel;
    this.#send({ kind: 'who' });
    const leave = new AbortController();
    this.#leave = leave;
    navigator.locks
      .request(name, { signal: leave.signal }, () => this.#lead(leave.signal))
      // Leaving the line is no failure.
      .catch(() => undefined);
  }

  close() {
    this.#stream.close();
    this.#state = { kind: 'opening' };
    this.#leads = false;
    this.#leave?.abort();
    this.#leave = null;
    this.#channel?.close();
    this.#channel = null;
  }

  retryNow() {
    if (this.#leads) this.#stream.retryNow();
    else this.#send({ kind: 'retry' });
  }

  /** Has the stream, and with it the lock, until this tab leaves. */
  #lead(left: AbortSignal): Promise<void> {
    if (left.aborted) return Promise.resolve();
    this.#leads = true;
    this.#stream.open();
    return new Promise((release) => left.addEventListener('abort', () => release()));
  }

  #hear(between: Between) {
    if (between.kind === 'who') {
      if (this.#leads) this.#send(this.#state);
    } else if (between.kind === 'retry') {
      if (this.#leads) this.#stream.retryNow();
    } else if (!this.#leads) {
      this.#say(between);
    }
  }

  #send(between: Between) {
    this.#channel?.postMessage(between);
  }
}
