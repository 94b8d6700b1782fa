// Clients that keep a warden busy as coding agents do: each turn sends the whole history.

import { setTimeout as sleep } from 'node:timers/promises';

/** @typedef {import('./warden.js').Warden} Warden */

/** Conversations that speak until they are told to stop. */
export class Load {
  #stopped = false;
  /** @type {Promise<void>[]} */
  #sessions = [];
  /** Turns that came back whole. */
  turns = 0;

  /**
   * @param {Warden} warden @param {number} sessions
   * @param {{ think_ms?: number, words?: number, max_tokens?: number, name?: string }} [options]
   *   the pause of a client after each reply, the length of its first message and of its replies
   */
  constructor(
    warden,
    sessions,
    { think_ms = 0, words = 800, max_tokens = 24, name = 'pages-test' } = {},
  ) {
    for (let i = 0; i < sessions; i++) {
      this.#sessions.push(this.#talk(warden, `${name}-${i}`, { think_ms, words, max_tokens }));
    }
  }

  /** @param {Warden} warden @param {string} session @param {{ think_ms: number, words: number, max_tokens: number }} options */
  async #talk(warden, session, { think_ms, words, max_tokens }) {
    const first = `Session ${session}. ${'Read this. '.repeat(words / 2)}`;
    const messages = [{ role: 'user', content: first }];
    while (!this.#stopped) {
      const reply = await warden.ask(session, { model: 'demo', max_tokens, messages });
      messages.push({ role: 'assistant', content: reply }, { role: 'user', content: 'Go on.' });
      this.turns += 1;
      await sleep(think_ms);
    }
  }

  /** Lets the turns in flight end. */
  async stop() {
    this.#stopped = true;
    await Promise.all(this.#sessions);
  }
}
