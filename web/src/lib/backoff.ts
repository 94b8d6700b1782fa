// How long to wait before trying again: doubling from one second to fifteen, with a fifth of jitter
// so that many open pages do not come back to a restarted warden in the same instant.

const wait_ms_min = 1_000;
const wait_ms_max = 15_000;

/** `random` is 0 to 1; `failures` counts from 1. */
export function backoffMs(failures: number, random = Math.random()): number {
  const wait_ms = Math.min(wait_ms_max, wait_ms_min * 2 ** Math.min(10, failures - 1));
  return wait_ms * (0.8 + 0.4 * random);
}
