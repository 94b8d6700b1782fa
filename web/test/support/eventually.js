// Waiting for what comes about at its own pace.

import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Tries until it holds: what the page shows follows what the API gives, at its own pace.
 * @param {() => Promise<void>} check
 */
export async function eventually(check, wait_ms_max = 20_000) {
  const end = Date.now() + wait_ms_max;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() > end) throw error;
      await sleep(100);
    }
  }
}
