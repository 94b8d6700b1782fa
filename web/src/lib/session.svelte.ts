// Whether these pages are open: where keys are required, an admin's key opens them once, and a
// cookie that no script can read keeps them open. Nothing is asked of the API while they are shut.

import { call, Failure, get, whenUnauthorized } from '../api/client';
import type { Session } from '../api/types';
import { events } from './events.svelte';

class SessionState {
  /** Null until the warden has said it, or could not. */
  shut = $state<boolean | null>(null);
  /** The name of the key that opened the pages; null where none was needed. */
  name = $state<string | null>(null);

  start() {
    whenUnauthorized(() => this.#shut());
    void this.#check();
  }

  async #check() {
    try {
      const session = await get<Session>('/session');
      this.name = session.name ?? null;
      this.#set(session.required && this.name === null);
    } catch (error) {
      // A warden that does not answer is no reason to ask for a key: the pages say what is wrong.
      this.#set(error instanceof Failure && error.kind === 'forbidden');
    }
  }

  async logIn(key: string) {
    await call<undefined>('POST', '/login', { key });
    await this.#check();
  }

  async logOut() {
    await call<undefined>('POST', '/logout');
    this.#shut();
  }

  #shut() {
    this.name = null;
    this.#set(true);
  }

  #set(shut: boolean) {
    this.shut = shut;
    events.hold(shut);
  }
}

export const session = new SessionState();
